"""Where a verb's data come from: a folder of examples, or of a data set that becomes some meanwhile."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from pipeline.cli.base import Argument, argument

_WORK = ".examples"


@contextlib.contextmanager
def examples_of(path: str, arguments: argparse.Namespace, output: str) -> Iterator[str]:
    """Yield a folder of examples: `path` itself, or one inside `output` that is gone when the block ends.

    Args:
        path: what the user named; "" gives "".
        arguments: with what `source_arguments` adds.
        output: local folder with room for the images.

    Raises:
        ConfigError: for splits that cannot be used.
        DataError: when there are no data, or none that can be used.
    """
    from detection_core.artifacts.detector import LABEL_MAP

    if not path or (files.exists(files.join(path, LABEL_MAP)) and not arguments.format):
        yield path
        return
    folder = os.path.join(output, _WORK)
    try:
        _make_examples(path, arguments.format, _splits(arguments.splits), folder)
        yield folder
    finally:
        files.remove_tree(folder)


def format_argument() -> Iterator[Argument]:
    """Yield the flag that names the format, one of those that there are readers for."""
    from detection_core.datasets.readers import READERS

    yield argument(
        "--format",
        default="",
        choices=sorted(READERS),
        metavar="FORMAT",
        help=f"of the data set: {', '.join(sorted(READERS))} (default: found by looking)",
    )


def source_arguments() -> Iterator[Argument]:
    """Yield the flags that say what the data are."""
    yield from format_argument()
    yield argument(
        "--splits",
        default="",
        metavar="JSON",
        help="as data.splits of a settings file (default: found by looking)",
    )


def _make_examples(path: str, data_format: str, splits: dict[str, Any], folder: str) -> None:
    from component_specs import ExampleGenJob
    from components.example_gen.run import run

    if not (data_format and splits):
        path, data_format, splits = _found(path, data_format, splits)
    # What cannot be used is counted and shown, and does not end the verb.
    run(
        ExampleGenJob(
            examples=folder, data_path=path, data_format=data_format, splits=splits, quarantine_limit=1.0
        )
    )


def _found(path: str, data_format: str, splits: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return folder, format and splits of the data set in a folder, where they were not named."""
    from detection_core.datasets.layout_search import find_layouts
    from detection_core.datasets.layouts import RATIOS

    try:
        layouts = [layout for layout in find_layouts(path) if data_format in ("", layout.format)]
    except DataError:
        if not data_format:
            raise
        layouts = []  # the reader of the format that was named says what is missing
    if not layouts:
        return path, data_format, splits or dict(RATIOS)
    return layouts[0].path, layouts[0].format, splits or dict(layouts[0].splits)


def _splits(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError as e:
        raise ConfigError(f"expected JSON, found {text!r:.80} ({e})", where="--splits") from e
    if not isinstance(value, dict):
        raise ConfigError(f"expected an object, found {text!r:.80}", where="--splits")
    return value
