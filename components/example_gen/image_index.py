"""The images of a data set by split, in the order of the shards; kept on disk as JSON, not in memory."""

import array
import base64
import binascii
import json
import math
import struct
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import orjson

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    ImageLabel,
    Mask,
    MaskFile,
    Polygons,
    Rejection,
    RunLengths,
)
from detection_core.datasets.grouping import open_index
from detection_core.datasets.layouts import order_digest

T = TypeVar("T")

_BATCH = 1000
_ANY_TEXT = ("utf-8", "surrogatepass")  # file names need not be UTF-8

_SCHEMA = """
CREATE TABLE images (place INTEGER PRIMARY KEY, split TEXT, digest BLOB, id TEXT, file BLOB, record TEXT);
CREATE TABLE rejected (place INTEGER PRIMARY KEY, split TEXT, fields TEXT);
"""


class ImageIndex:
    """Stores the readers' results and sorts them with SQLite."""

    def __init__(self) -> None:
        self._index = open_index(_SCHEMA)
        self._images: list[tuple[Any, ...]] = []
        self._rejected: list[tuple[str, str]] = []

    def add(self, split: str, image: AnnotatedImage) -> None:
        """Add an image to a split."""
        row = (split, order_digest(image.source_id), image.source_id, image.filename.encode(*_ANY_TEXT))
        self._images.append((*row, format_record(image)))
        if len(self._images) >= _BATCH:
            self._flush()

    def reject(self, split: str, rejections: Iterable[Rejection]) -> None:
        """Store the rejections of a split."""
        self._rejected += [(split, json.dumps(rejection)) for rejection in rejections]
        if len(self._rejected) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._index.executemany(
            "INSERT INTO images (split, digest, id, file, record) VALUES (?, ?, ?, ?, ?)", self._images
        )
        self._index.executemany("INSERT INTO rejected (split, fields) VALUES (?, ?)", self._rejected)
        self._images, self._rejected = [], []

    def reject_doubles(self) -> None:
        """Reject every image whose id an earlier image of its split has."""
        self._flush()
        self._index.execute("CREATE INDEX ids ON images (split, digest, id)")
        doubles = self._index.execute(
            "SELECT later.split, later.id, later.file, first.file, later.place FROM"
            " (SELECT split, digest, id, min(place) AS place FROM images GROUP BY split, digest, id"
            "  HAVING count(*) > 1) AS same"
            " JOIN images AS first ON first.place = same.place"
            " JOIN images AS later ON later.split = same.split AND later.digest = same.digest"
            "  AND later.id = same.id AND later.place > same.place"
            " ORDER BY later.place"
        ).fetchall()
        for split, image_id, file, first, _ in doubles:
            detail = f"the id is that of {first.decode(*_ANY_TEXT)!r}, which comes first"
            self.reject(split, [Rejection(file.decode(*_ANY_TEXT), image_id, "duplicate_id", detail)])
        self._index.executemany("DELETE FROM images WHERE place = ?", [(row[-1],) for row in doubles])
        # A sequential scan is faster than following the index.
        self._index.execute("DROP INDEX ids")
        self._flush()

    def images(self, split: str) -> "IndexedImages":
        """Return the images of a split."""
        return IndexedImages(self, "images", split)

    def rejected(self, split: str) -> "RejectedRecords":
        """Return the rejections of a split."""
        return RejectedRecords(self, "rejected", split)

    def rows(self, query: str, split: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query on a split."""
        self._flush()
        return self._index.execute(query, (split,))

    def count(self, table: str, split: str) -> int:
        """Return the number of rows of a split in a table."""
        return int(next(self.rows(f"SELECT count(*) FROM {table} WHERE split = ?", split))[0])


class _Rows(Collection[T]):
    def __init__(self, index: ImageIndex, table: str, split: str) -> None:
        self._index, self._table, self._split = index, table, split

    def __len__(self) -> int:
        return self._index.count(self._table, self._split)

    def __contains__(self, row: object) -> bool:
        return any(row == each for each in self)


class IndexedImages(_Rows[AnnotatedImage]):
    """The images of a split, in storage order."""

    def __iter__(self) -> Iterator[AnnotatedImage]:
        return (read_record(parse_json(text)) for text in self.texts())

    def texts(self) -> Iterator[str]:
        """Yield the images as `format_record` writes them."""
        # SQLite sorts on disk if memory does not suffice.
        query = "SELECT record FROM images WHERE split = ? ORDER BY digest, id"
        return (text for (text,) in self._index.rows(query, self._split))


class RejectedRecords(_Rows[Rejection]):
    """The rejections of a split, in the order of reading."""

    def __iter__(self) -> Iterator[Rejection]:
        rows = self._index.rows("SELECT fields FROM rejected WHERE split = ? ORDER BY place", self._split)
        return (Rejection(*json.loads(fields)) for (fields,) in rows)


def format_record(image: AnnotatedImage) -> str:
    """Return an image as JSON: a list of its fields, or two lists if it has masks, which come second."""
    objects = [_object_fields(item) for item in image.objects]
    more = list(image[_OBJECTS_AT + 1 :])
    while more and more[-1] == _MORE_DEFAULTS[len(more) - 1]:
        more.pop()
    fields = [*image[:_OBJECTS_AT], objects, *more]
    text = _encode(fields) if _is_finite(image.objects) else _encode_any(fields)
    masks = [_mask_text(item.mask) for item in image.objects]
    return f"[{text}, [{', '.join(masks)}]]" if any(mask != _NO_MASK for mask in masks) else text


def read_record(fields: list[Any]) -> AnnotatedImage:
    """Return the image that `format_record` serialised."""
    masks: list[Any] = []
    if isinstance(fields[0], list):
        fields, masks = fields
    before, objects, more = fields[:_OBJECTS_AT], fields[_OBJECTS_AT], fields[_OBJECTS_AT + 1 :]
    items = [_object(*item) for item in objects]
    if masks:
        items = [item._replace(mask=_mask(mask)) for item, mask in zip(items, masks, strict=True)]
    labels = [ImageLabel(*label) for label in more[0]] if more else ()
    more = [labels or (), *more[1:], *_MORE_DEFAULTS[max(1, len(more)) :]]
    return AnnotatedImage._make([*before, items, *more])


_encode_any = json.JSONEncoder(check_circular=False).encode


def _encode(value: Any) -> str:
    """Return a value without NaN and infinity as JSON text; orjson would write those as null."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # a lone surrogate, an integer of more than 64 bits, a named tuple
        return _encode_any(value)


def _is_finite(objects: Sequence[AnnotatedObject]) -> bool:
    """Return whether all numbers are finite and the objects have boxes only, as orjson requires."""
    for item in objects:
        xmin, ymin, xmax, ymax = item.box
        if not math.isfinite(xmin + ymin + xmax + ymax + item.area) or item[_LABEL_AT + 2 :] != _DEFAULTS[1:]:
            return False
    return True


def parse_json(text: str | bytes) -> Any:
    """Parse the output of `format_record`, or a list of it, with NaN and infinity as in the json module."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def _object_fields(item: AnnotatedObject) -> tuple[Any, ...]:
    known = item[: _LABEL_AT + 1]
    more = item[_LABEL_AT + 2 :]
    return known if more == _DEFAULTS[1:] else (*known, None, *more)


_OBJECTS_AT = AnnotatedImage._fields.index("objects")
_MORE_DEFAULTS = tuple(
    AnnotatedImage._field_defaults[name] for name in AnnotatedImage._fields[_OBJECTS_AT + 1 :]
)
_LABEL_AT = AnnotatedObject._fields.index("label")
_DEFAULTS = tuple(AnnotatedObject._field_defaults[name] for name in AnnotatedObject._fields[_LABEL_AT + 1 :])


def _object(name: str, box: list[float], *rest: Any) -> AnnotatedObject:
    item = AnnotatedObject._make((name, tuple(box), *rest, *(_DEFAULTS if len(rest) < _LABEL_AT else ())))
    if item.keypoints is None:
        return item
    return item._replace(keypoints=[(x, y, seen) for x, y, seen in item.keypoints])


_NO_MASK = "null"


def _mask_text(mask: Mask | None) -> str:
    if mask is None:
        return _NO_MASK
    if isinstance(mask, Polygons):
        # Numbers as text take a hundred times as long to write and read, and masks consist of them. Base64
        # has no character that JSON must escape, so skip the search for one.
        rings = (binascii.b2a_base64(_doubles(ring), newline=False).decode() for ring in mask.rings)
        quoted = ", ".join(f'"{ring}"' for ring in rings)
        return f'{{"rings": [{quoted}]}}'
    if isinstance(mask, RunLengths):
        counts = mask.counts if isinstance(mask.counts, str) else list(mask.counts)
        return _encode({"size": [mask.height, mask.width], "counts": counts})
    return _encode({"path": mask.path})


def _doubles(ring: Sequence[float]) -> bytes:
    if isinstance(ring, array.array) and ring.typecode == "d" and sys.byteorder == "little":
        return ring.tobytes()
    return struct.pack(f"<{len(ring)}d", *ring)


def _mask(fields: dict[str, Any] | None) -> Mask | None:
    if fields is None:
        return None
    if "rings" in fields:
        return Polygons([np.frombuffer(base64.b64decode(ring), "<f8") for ring in fields["rings"]])
    if "size" in fields:
        height, width = fields["size"]
        return RunLengths(height, width, fields["counts"])
    return MaskFile(fields["path"])
