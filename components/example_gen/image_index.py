"""The images of a data set by split, in the order of the shards; kept on disk, not in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from components.example_gen.task_records import format_record, parse_json, read_record
from detection_core.datasets.annotated_images import AnnotatedImage, Rejection
from detection_core.datasets.grouping import open_index
from detection_core.datasets.splits import order_digest

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

    def images(self, split: str) -> IndexedImages:
        """Return the images of a split."""
        return IndexedImages(self, split)

    def rejected(self, split: str) -> RejectedRecords:
        """Return the rejections of a split."""
        return RejectedRecords(self, split)

    def rows(self, query: str, split: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query on a split."""
        self._flush()
        return self._index.execute(query, (split,))

    def count(self, table: str, split: str) -> int:
        """Return the number of rows of a split in a table."""
        return int(next(self.rows(f"SELECT count(*) FROM {table} WHERE split = ?", split))[0])


class IndexedImages(Collection[AnnotatedImage]):
    """The images of a split, in storage order."""

    def __init__(self, index: ImageIndex, split: str) -> None:
        self._index, self._split = index, split

    def __len__(self) -> int:
        return self._index.count("images", self._split)

    def __iter__(self) -> Iterator[AnnotatedImage]:
        return (read_record(parse_json(text)) for text in self.texts())

    def __contains__(self, image: object) -> bool:
        return any(image == each for each in self)

    def texts(self) -> Iterator[str]:
        """Yield the images as `task_records.format_record` writes them."""
        # SQLite sorts on disk if memory does not suffice.
        query = "SELECT record FROM images WHERE split = ? ORDER BY digest, id"
        return (text for (text,) in self._index.rows(query, self._split))


class RejectedRecords(Collection[Rejection]):
    """The rejections of a split, in the order of reading."""

    def __init__(self, index: ImageIndex, split: str) -> None:
        self._index, self._split = index, split

    def __len__(self) -> int:
        return self._index.count("rejected", self._split)

    def __iter__(self) -> Iterator[Rejection]:
        rows = self._index.rows("SELECT fields FROM rejected WHERE split = ? ORDER BY place", self._split)
        return (Rejection(*json.loads(fields)) for (fields,) in rows)

    def __contains__(self, rejection: object) -> bool:
        return any(rejection == each for each in self)
