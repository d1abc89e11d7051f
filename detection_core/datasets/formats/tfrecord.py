"""TFRecord files of the Object Detection API, whose records and images are read where they lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    Annotations,
    Rejected,
    Rejection,
    Rejections,
)
from detection_core.datasets.formats.tfrecord_example import RecordedExample
from detection_core.datasets.formats.tfrecord_files import find_files, read_records
from detection_core.datasets.layouts import list_data_set
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files

LABEL_MAPS = (".pbtxt",)


def locate(root: str, location: Any) -> list[str]:
    """Find the record files of a split, and the label maps beside them.

    Args:
        root: folder of the data set.
        location: a file, or a pattern of files with `*` and `?`, relative to `root`; None for all below it.

    Raises:
        ConfigError: when the location is something else.
        DataError: when there is no such file.
    """
    listing = list_data_set(root)
    return [*_record_files(root, location), *(listing.path(path) for path in listing.paths(*LABEL_MAPS))]


def _record_files(root: str, location: Any) -> list[str]:
    if not isinstance(location, str | None):
        raise ConfigError(f"expected a TFRecord file or a pattern, found {shorten(location)}", where="splits")
    if location is None:
        listing = list_data_set(root)
        found = [listing.path(path) for path in find_files(listing)]
    else:
        found = files.glob(f"{files.escape(root).rstrip('/')}/{location}")
    if not found:
        raise DataError(
            "expected TFRecord files, found none; correct data.splits", where=files.join(root, location or "")
        )
    return found


def read(root: str, location: Any) -> Annotations:
    """Read the examples of TFRecord files; arguments and errors are those of `read_named`."""
    return read_named(root, location, {})


def read_named(root: str, location: Any, class_names: Mapping[int, str]) -> Annotations:
    """Read the examples of TFRecord files. Classes keep the ids that the records give them.

    Args:
        root: folder of the data set.
        location: see `locate`.
        class_names: id to name, for records that have no class texts, and ids of those that have no labels.

    Raises:
        DataError: when a file is damaged, or a class has two ids.
    """
    images: list[AnnotatedImage] = []
    rejected = Rejections()
    categories: dict[str, int] = {}
    keypoint_names: dict[str, list[str]] = {}
    ids = {name: number for number, name in class_names.items()}
    for path in _record_files(root, location):
        name = os.path.relpath(path, root)
        for number, (part, data) in enumerate(read_records(path)):
            try:
                if data is None:
                    raise Rejected("malformed_record", "the record's checksum does not fit its bytes")
                example = RecordedExample(data, part, class_names)
                image = example.image(f"{name}-{number}")
                _learn(categories, example.classes(), ids, path)
                keypoint_names |= example.keypoint_names()
                images.append(image)
            except Rejected as e:
                rejected.append(Rejection(name, f"record {number}", e.reason, e.detail))
    return Annotations(categories=categories, images=images, rejected=rejected, keypoint_names=keypoint_names)


def _learn(categories: dict[str, int], classes: Mapping[str, int], ids: Mapping[str, int], path: str) -> None:
    for name, told in classes.items():
        number = told or ids.get(name, 0)
        known = categories.get(name, 0)
        if known and number and known != number:
            raise DataError(
                f"expected one id for the class {name!r:.80}, found {known} and {number} in the records; "
                "make them again with one label map",
                where=path,
            )
        categories[name] = known or number
