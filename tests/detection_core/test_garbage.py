"""Pause the garbage collector while many objects are made that all stay."""

import gc

import pytest

from detection_core.garbage import no_collection
from tests.support.cases import cases


@cases(True, False)
def test_the_collector_is_as_it_was_also_after_an_error(*, before):
    was_on = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(ZeroDivisionError), no_collection():
            assert not gc.isenabled()
            _ = 1 / 0
        assert gc.isenabled() == before
    finally:
        (gc.enable if was_on else gc.disable)()
