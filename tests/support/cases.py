"""A table of cases that one test walks through, instead of a collected test for each row."""

import contextlib
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detection_core.errors import ConfigError


def cases(*rows: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test for every row, whose values are the parameters after its `*`, and list all that fail.

    Each row has a fresh `tmp_path`, its own `monkeypatch` and an empty `caplog`. With one parameter after the
    `*` a row is its value; with several a row is a tuple of them.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(test).parameters.values()
        names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

        @functools.wraps(test)
        def walk(**fixtures: Any) -> None:
            failures = []
            for number, row in enumerate(rows):
                values = dict(zip(names, (row,) if len(names) == 1 else row, strict=True))
                try:
                    with _fresh(fixtures, number) as own:
                        test(**own, **values)
                except (Exception, pytest.fail.Exception) as e:
                    failures.append((f"row {number}, {_short(row)}: {e!r}", e))
            if failures:
                raise AssertionError("\n".join(text for text, _ in failures)) from failures[0][1]

        fixtures = [p for p in parameters if p.name not in names]
        walk.__signature__ = inspect.Signature(fixtures)  # type: ignore[attr-defined]
        assert rows, "a table without rows tests nothing"
        return walk

    return decorate


@contextlib.contextmanager
def _fresh(fixtures: dict[str, Any], number: int):
    own = dict(fixtures)
    with contextlib.ExitStack() as stack:
        if "tmp_path" in own:
            folder: Path = own["tmp_path"] / f"row-{number}"
            folder.mkdir()
            own["tmp_path"] = folder
        if "monkeypatch" in own:
            own["monkeypatch"] = stack.enter_context(own["monkeypatch"].context())
        if "caplog" in own:
            own["caplog"].clear()
        yield own


def _short(row: Any) -> str:
    text = repr(row)
    return text if len(text) < 300 else f"{text[:300]}..."


def refused(
    error: type[BaseException], message: str, call: Callable[..., Any], *arguments: Any, **options: Any
) -> Any:
    """Return the error that a call raises; it must be of this type and its text match this pattern."""
    try:
        with pytest.raises(error, match=message or None) as caught:
            call(*arguments, **options)
    except BaseException as failure:
        failure.add_note(f"called with {_short(arguments)} {options or ''}")
        raise
    return caught.value


def config_refused(message: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Return the `ConfigError` that a call raises; its text must match this pattern."""
    return refused(ConfigError, message, call, *arguments)
