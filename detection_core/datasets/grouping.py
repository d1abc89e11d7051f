"""Brings together what a file says of one image in many places, on disk and not in memory."""

from __future__ import annotations

import contextlib
import marshal
import sqlite3
from collections.abc import Iterator
from typing import Any

CACHE_KIB = 1 << 15
"""Memory that an index on disk may use before it writes."""

_BATCH = 5000


def open_index(schema: str) -> sqlite3.Connection:
    """Open an empty database on disk, where temporary files lie (TMPDIR), that is gone when it is closed.

    Args:
        schema: statements that make its tables.
    """
    index = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    # Nothing must outlive a crash, so nothing need be safe from one.
    index.executescript(
        f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB}; BEGIN; {schema}"
    )
    return index


class Grouping:
    """Images, and parts of them such as annotations, which name their image and come in any order.

    Values are what `marshal` takes: numbers, texts, and lists and dictionaries of them. The index is private
    to the process and lives no longer, so that the format may change with Python.
    """

    def __init__(self) -> None:
        self._index = open_index(
            "CREATE TABLE images (place INTEGER PRIMARY KEY, key, value BLOB);"
            "CREATE TABLE parts (place INTEGER PRIMARY KEY, key, value BLOB);"
        )
        self._images: list[tuple[Any, bytes]] = []
        self._parts: list[tuple[Any, bytes]] = []

    def add_image(self, key: Any, value: Any) -> None:
        """Add an image.

        Args:
            key: by which parts name it: a number or text.
            value: what is known of it.

        Raises:
            TypeError: for a key of another type.
        """
        self._images.append((_key(key), marshal.dumps(value)))
        if len(self._images) >= _BATCH:
            self._flush()

    def add_part(self, key: Any, value: Any) -> None:
        """Add a part of an image, by the image's key.

        Raises:
            TypeError: for a key that no image can have.
        """
        self._parts.append((_key(key), marshal.dumps(value)))
        if len(self._parts) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._index.executemany("INSERT INTO images (key, value) VALUES (?, ?)", self._images)
        self._index.executemany("INSERT INTO parts (key, value) VALUES (?, ?)", self._parts)
        self._images, self._parts = [], []

    def __iter__(self) -> Iterator[tuple[Any, list[Any]]]:
        """Yield each image with its parts, both in the order in which they were added, and then forget all.

        Parts of no image come last, each with None for the image.
        """
        self._flush()
        self._index.execute("CREATE INDEX images_by_key ON images (key)")
        with contextlib.closing(self._index):
            parts = self._index.execute(
                "SELECT i.place, p.value FROM parts p CROSS JOIN images i INDEXED BY images_by_key"
                " ON i.key = p.key ORDER BY i.place, p.place"
            )
            place, part = next(parts, _NO_PART)
            for image, value in self._index.execute("SELECT place, value FROM images ORDER BY place"):
                own = []
                while place == image:
                    own.append(marshal.loads(part))
                    place, part = next(parts, _NO_PART)
                yield marshal.loads(value), own
            unlisted = self._index.execute(
                "SELECT p.value FROM parts p WHERE NOT EXISTS (SELECT 1 FROM images i WHERE i.key = p.key)"
                " ORDER BY p.place"
            )
            for (part,) in unlisted:
                yield None, [marshal.loads(part)]


_NO_PART: tuple[int, bytes] = (0, b"")  # places begin at 1


def _key(key: Any) -> Any:
    """Return a key as SQLite compares it: numbers by value, and texts only with texts."""
    if type(key) is int and -(1 << 63) <= key < 1 << 63:
        return key
    if isinstance(key, str):
        return key if key.isascii() else key.encode("utf-8", "surrogatepass")
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if isinstance(key, int) and -(1 << 63) <= key < 1 << 63:
        return int(key)
    if key is None or isinstance(key, int | float):
        return f"\0{key}".encode()
    raise TypeError(key)
