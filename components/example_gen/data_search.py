"""The format of a data set, where settings leave it open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from component_specs.example_gen import Spans
from components.example_gen.spans import NO_SPANS, sources
from detection_core.datasets.layout_search import AUTO, find_format
from detection_core.datasets.splits import check_splits, is_by_ratio
from detection_core.storage import files


def find_data(
    data_path: str, data_format: str, splits: Mapping[str, Any], spans: Spans = NO_SPANS
) -> tuple[str, str]:
    """Return the folder and the format of a data set; both as they are given, unless the format is `auto`.

    Of data with spans the newest one is looked into.

    Args:
        data_path: folder, perhaps with a span pattern.
        data_format: a key of `readers.READERS`, or `auto`.
        splits: as ExampleGen gets them.
        spans: that are read.

    Raises:
        ConfigError: for splits that cannot be used.
        DataError: when no data set is found that settings can mean, with what was looked for.
    """
    if data_format != AUTO:
        return data_path, data_format
    checked = check_splits(splits)
    places = [None] if is_by_ratio(checked) else list(checked.values())
    newest = spans.all()[-1:]
    filled = [source for place in places for source in sources(data_path, place, newest)]
    root = filled[0][1]
    path, found = find_format(root, [location for _, _, location in filled])
    inside = os.path.relpath(path, root) if path != root else ""
    return files.join(data_path, inside) if inside else data_path, found
