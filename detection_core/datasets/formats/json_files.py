"""Reads JSON annotation files and checks the types of their values."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from detection_core.bounded.limits import MAX_IMAGE_FILE_BYTES, parse_json_text
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Malformed,
    Rejected,
    Rejection,
    Rejections,
    checked_id,
    checked_text,
    read_annotation,
)
from detection_core.datasets.formats.annotation_files import FileFormat, Source
from detection_core.datasets.image_files import ImageFiles, with_unannotated


def parse_json(path: str) -> Any:
    """Return the content of a JSON file. Raises Rejected if the file is missing or cannot be parsed."""
    data = read_annotation(path, MAX_IMAGE_FILE_BYTES)
    try:
        return parse_json_text(data.decode("utf-8-sig"))
    except ValueError as e:
        raise Rejected("unreadable_annotation", f"the JSON cannot be parsed: {e}") from e


def number_of(value: object, what: str) -> float:
    """Return a value if it is a finite number. Raises Rejected as a malformed annotation."""
    if not isinstance(value, bool) and isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise Malformed(f"expected {what} as a finite number, found {value!r:.80}")


def point_of(value: object, what: str) -> tuple[float, float]:
    """Return a value if it is a list of two finite numbers. Raises Rejected as a malformed annotation."""
    if not isinstance(value, list) or len(value) != 2:
        raise Malformed(f"expected {what} as x and y, found {value!r:.80}")
    return number_of(value[0], what), number_of(value[1], what)


def mapping_of(value: object, what: str) -> Mapping[str, Any]:
    """Return a value if it is a JSON object. Raises Rejected as a malformed record."""
    if not isinstance(value, Mapping):
        raise Rejected("malformed_record", f"expected {what} as a JSON object, found {value!r:.80}")
    return value


def list_of(value: object, what: str) -> list[Any]:
    """Return a value if it is a list. Raises Rejected as a malformed record."""
    if not isinstance(value, list):
        raise Rejected("malformed_record", f"expected {what} as a list, found {value!r:.80}")
    return value


def size_of(width: object, height: object) -> tuple[int, int]:
    """Return an image's size in pixels; 0 for an unknown side. Raises Rejected as a malformed record."""
    sides = [0.0 if side is None else number_of(side, "the image's size") for side in (width, height)]
    if any(side < 0 or not side.is_integer() for side in sides):
        raise Rejected("malformed_record", f"expected the image's size in pixels, found {sides!r:.80}")
    return int(sides[0]), int(sides[1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class EntryFormat(FileFormat):
    """A format whose files are lists of entries, one for each image, without sizes and categories.

    Attributes:
        entries: returns a file's entries.
        image_name: returns an entry's image name.
        objects: returns an entry's objects; may raise Rejected.
    """

    entries: Callable[[str], Iterable[Any]]
    image_name: Callable[[Mapping[str, Any]], object]
    objects: Callable[[Mapping[str, Any]], list[AnnotatedObject]]

    def read(self, root: str, location: Any) -> Annotations:
        """Read the files of a split. The categories are the classes that occur.

        Images without an entry count as not annotated yet. See `FileFormat.sources` for `location`.

        Raises:
            DataError: if a whole file cannot be used.
        """
        sources = self.sources(root, location)
        found = Annotations(rejected=Rejections())
        folders = {source.images: ImageFiles(source.images) for source in sources}

        def images(source: Source) -> Iterator[AnnotatedImage]:
            available, file = folders[source.images], source.annotations.rpartition("/")[2]
            for number, entry in enumerate(self.entries(source.annotations), start=1):
                name: object = number
                try:
                    if not isinstance(entry, Mapping):
                        raise Rejected("malformed_record", f"expected an image, found {entry!r:.80}")
                    name = self.image_name(entry)
                    filename = available.find(checked_text(name, "the image's name"))
                    objects = self.objects(entry)
                except Rejected as e:
                    found.rejected.append(Rejection(file, f"{name}"[:200], e.reason, e.detail))
                    found.about.update(available.paths_like(name) if isinstance(name, str) else ())
                    continue
                found.categories.update((item.name, 0) for item in objects)
                found.about.add(path := available.path(filename))
                yield AnnotatedImage(checked_id(filename), filename, path, 0, 0, objects)

        read = dataclasses.replace(found, images=itertools.chain.from_iterable(map(images, sources)))
        return functools.reduce(with_unannotated, folders.values(), read)
