"""The images of a data set by split, in the order of the shards; kept on disk, not in memory."""

import array
import json
import marshal
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

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
CREATE TABLE images (place INTEGER PRIMARY KEY, split TEXT, digest BLOB, id TEXT, file BLOB, record BLOB);
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
        self._images.append((*row, pack_record(image)))
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
        return (read_record(marshal.loads(packed)) for packed in self.packed())

    def packed(self) -> Iterator[bytes]:
        """Yield the images as `pack_record` writes them."""
        # SQLite sorts on disk if memory does not suffice.
        query = "SELECT record FROM images WHERE split = ? ORDER BY digest, id"
        return (packed for (packed,) in self._index.rows(query, self._split))


class RejectedRecords(_Rows[Rejection]):
    """The rejections of a split, in the order of reading."""

    def __iter__(self) -> Iterator[Rejection]:
        rows = self._index.rows("SELECT fields FROM rejected WHERE split = ? ORDER BY place", self._split)
        return (Rejection(*json.loads(fields)) for (fields,) in rows)


_plain: Callable[..., Any] = tuple  # marshal takes no named tuples


def pack_record(image: AnnotatedImage) -> bytes:
    """Return an image with `marshal`, whose format the workers know: Beam requires one version of Python."""
    objects, labels = list(map(_object_fields, image.objects)), list(map(_plain, image.labels))
    return marshal.dumps(_plain(image._replace(objects=objects, labels=labels)))


def read_record(fields: tuple[Any, ...]) -> AnnotatedImage:
    """Return the image that `pack_record` serialised."""
    image = AnnotatedImage._make(fields)
    labels = [ImageLabel(*label) for label in image.labels]
    return image._replace(objects=list(map(_object, image.objects)), labels=labels or ())


def _object_fields(item: AnnotatedObject) -> Any:
    name, box, area, crowd, difficult, truncated, pose, label, mask, points, *rest = item
    # Readers of others may give NumPy's numbers, which marshal takes for bytes.
    numbers = tuple(map(float, box)), float(area), crowd, difficult, truncated
    points = points and [(float(x), float(y), int(seen)) for x, y, seen in points]
    return (name, *numbers, pose, label, mask and _mask_fields(mask), points, *rest)


def _object(fields: tuple[Any, ...]) -> AnnotatedObject:
    item = AnnotatedObject._make(fields)
    mask: Any = item.mask
    return item._replace(mask=_MASKS[mask[0]](*mask[1:])) if mask else item


def _mask_fields(mask: Mask) -> Any:
    """Return a mask's type and fields; the numbers of polygons are packed, because masks consist of them."""
    if isinstance(mask, Polygons):
        return "Polygons", [array.array("d", ring).tobytes() for ring in mask.rings]
    if isinstance(mask, RunLengths):
        return "RunLengths", *mask[:2], mask.counts if isinstance(mask.counts, str) else list(mask.counts)
    return "MaskFile", *mask


_MASKS: dict[str, Callable[..., Mask]] = {
    "Polygons": lambda rings: Polygons([np.frombuffer(ring, np.float64) for ring in rings]),
    "RunLengths": RunLengths,
    "MaskFile": MaskFile,
}
"""Type to the function of a mask's other fields."""
