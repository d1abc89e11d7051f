"""Detects the data set's format, if the settings leave it open, and computes its fingerprint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from component_specs.example_gen import SPANS, Spans
from components.example_gen.spans import NO_SPANS, sources
from detection_core.datasets.layout_search import AUTO, find_format
from detection_core.datasets.readers import find_reader
from detection_core.datasets.splits import check_splits, is_by_ratio
from detection_core.storage import files


def find_data(
    data_path: str, data_format: str, splits: Mapping[str, Any], spans: Spans = NO_SPANS
) -> tuple[str, str]:
    """Return the folder and format of a data set, unchanged unless the format is `auto`.

    For data with spans, the newest span is searched.

    Raises:
        ConfigError: for invalid splits.
        DataError: if no matching data set is found; the message lists what was searched.
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


def fingerprint(data_path: str, data_format: str, splits: Mapping[str, Any], spans: Spans = NO_SPANS) -> str:
    """Return a text that changes when a file of the data set is added, removed or written.

    Local files count by name, size and modification time; objects on S3 by name, size and ETag. Objects of
    other stores count by name, size and modification time; single files there, such as annotations, by
    content. For data with spans, only the spans to read count.

    Raises:
        ConfigError: for an invalid format or invalid splits.
        DataError: if an annotation file or image folder is missing.
    """
    checked = check_splits(splits)
    data_path, data_format = find_data(data_path, data_format, checked, spans)
    reader = find_reader(data_format)
    by_ratio = is_by_ratio(checked)
    paths = {
        path
        for split, location in checked.items()
        for _, folder, filled in sources(data_path, None if by_ratio else location, spans.of(split))
        for path in reader.locate_split(folder, filled)
        if path
    }
    digest = hashlib.sha256(SPANS.encode(spans).encode())
    for path in sorted(paths):
        for entry in _describe(path):
            # Use relative paths, so that moving a data set does not change the fingerprint.
            digest.update(os.path.relpath(path, data_path).encode(errors="surrogateescape"))
            digest.update(f"\0{entry}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _describe(path: str) -> Iterator[str]:
    if files.is_remote(path):
        yield from files.etags(path)
    elif os.path.isdir(path):
        for folder, names, here in os.walk(path):
            names.sort()
            for name in sorted(here):
                yield _state(os.path.join(folder, name), os.path.relpath(folder, path), name)
    else:
        yield _state(path, "", "")


def _state(path: str, folder: str, name: str) -> str:
    try:
        state = os.stat(path)
    except OSError:
        # Include broken links: ExampleGen will quarantine their images.
        return f"{folder}/{name} missing"
    return f"{folder}/{name} {state.st_size} {state.st_mtime_ns}"
