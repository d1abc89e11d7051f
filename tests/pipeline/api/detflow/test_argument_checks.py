from __future__ import annotations

import pytest

from detection_core import ConfigError
from detflow.argument_checks import check_count, check_counts, is_number


def test_counts():
    check_count("epochs", 1)
    check_counts(num_shards=3, max_num_images=None)


@pytest.mark.parametrize("count", [0, -1, 2.0, "3", True, None])
def test_what_is_no_count(count):
    with pytest.raises(ConfigError) as caught:
        check_count("epochs", count)
    assert caught.value.where == "epochs"


def test_numbers():
    assert [is_number(value) for value in (1, 0.5, True, "1", None)] == [True, True, False, False, False]
