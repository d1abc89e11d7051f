"""Tables of what must be refused, and with which words."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from detection_core.errors import ConfigError, DetectionError
from tests.support.cases import refused


def not_refused(
    call: Callable[[Any], object], cases: Iterable[tuple[Any, str]], error: type[Exception]
) -> list[tuple[Any, str, str]]:
    """Walk a table of (argument, pattern of the message); return what was not refused so."""
    failures = []
    for given, pattern in cases:
        try:
            refused(error, pattern, call, given)
        except (AssertionError, pytest.fail.Exception) as failure:
            failures.append((given, pattern, str(failure)))
    return failures


@contextlib.contextmanager
def refused_at(
    where: str, match: str | None = None, error: type[DetectionError] = ConfigError
) -> Iterator[pytest.ExceptionInfo[DetectionError]]:
    """What the block does is refused, and the error names this place."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    assert caught.value.where == where
