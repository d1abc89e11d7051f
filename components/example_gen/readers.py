"""The annotation formats: how each finds its files and reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from components.example_gen import coco, voc
from components.example_gen.records import Annotations
from detection_core.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationReader:
    """An annotation format.

    Attributes:
        locate: (root, location) to the files and folders that a split is read from; "" for none.
        read: (root, location) to what is in them. A location is what `splits` gives for a split, or None
            where everything is to be split by ratio.
    """

    locate: Callable[[str, Any], Sequence[str]]
    read: Callable[[str, Any], Annotations]


READERS = {
    "coco": AnnotationReader(locate=coco.locate, read=coco.read),
    "voc": AnnotationReader(locate=voc.locate, read=voc.read),
}


def find_reader(data_format: str) -> AnnotationReader:
    """Return the reader of a format.

    Raises:
        ConfigError: for a format that is not in the table.
    """
    if data_format not in READERS:
        raise ConfigError(f"expected one of {sorted(READERS)}, found {data_format!r}", where="data_format")
    return READERS[data_format]
