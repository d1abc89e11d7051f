"""Groups the annotations of each image on disk, for files that scatter them."""

import contextlib
import marshal
import math
import sqlite3
from collections.abc import Iterator
from typing import Any

from detection_core.bounded.limits import MAX_OBJECTS

CACHE_KIB = 1 << 15
"""Memory that an on-disk index may use before it writes."""

_BATCH = 5000


def open_index(schema: str) -> sqlite3.Connection:
    """Open an empty database in a temporary file (TMPDIR), which is deleted on close."""
    index = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    # The data need not survive a crash, so skip syncing and the journal.
    index.executescript(
        f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB}; BEGIN; {schema}"
    )
    return index


class Grouping:
    """Groups parts, for example annotations, by image; parts may come in any order.

    Only the keys of images are in memory; the rest is on disk.

    Values must be supported by `marshal`: numbers, texts, and lists and dictionaries of them. The index is
    private to the process, so its format may change with Python.
    """

    def __init__(self) -> None:
        self._index = open_index(
            "CREATE TABLE images (place INTEGER PRIMARY KEY, key INTEGER, packed BLOB);"
            "CREATE TABLE parts (number INTEGER PRIMARY KEY, key INTEGER, packed BLOB);"
        )
        self._keys: dict[Any, int] = {}
        self._waiting: dict[str, list[tuple[int, bytes]]] = {"images": [], "parts": []}

    def __contains__(self, key: Any) -> bool:
        """Return whether an image or a part with this key has been added."""
        return key in self._keys

    def add_image(self, key: Any, value: Any) -> None:
        """Add an image with a number or text as key; equal keys share parts; TypeError for other keys."""
        if isinstance(key, float) and math.isnan(key):
            raise TypeError(key)
        self._add("images", key, value)

    def add_part(self, key: Any, value: Any) -> None:
        """Add a part of an image, by the image's key. Raises TypeError if no image can have this key."""
        self._add("parts", key, value)

    def _add(self, table: str, key: Any, value: Any) -> None:
        waiting = self._waiting[table]
        waiting.append((self._keys.setdefault(key, len(self._keys)), marshal.dumps(value)))
        if len(waiting) >= _BATCH:
            self._write(table)

    def _write(self, table: str) -> None:
        self._index.executemany(f"INSERT INTO {table} (key, packed) VALUES (?, ?)", self._waiting[table])
        self._waiting[table].clear()

    def __iter__(self) -> Iterator[tuple[Any, list[Any]]]:
        """Yield each image with its parts, both in the order of addition, then delete everything.

        Of an image with more than `MAX_OBJECTS` parts, only the first `MAX_OBJECTS` + 1 are yielded. Parts
        without an image come last, each with None for the image.
        """
        for table in self._waiting:
            self._write(table)
        # It has all columns, so that the parts of an image lie together.
        self._index.execute("CREATE INDEX parts_of ON parts (key, number, packed)")
        with contextlib.closing(self._index):
            for key, image in self._index.execute("SELECT key, packed FROM images ORDER BY place"):
                parts = self._index.execute(
                    "SELECT packed FROM parts WHERE key = ? ORDER BY number LIMIT ?", (key, MAX_OBJECTS + 1)
                )
                yield marshal.loads(image), [marshal.loads(packed) for (packed,) in parts]
            unlisted = self._index.execute(
                "SELECT packed FROM parts WHERE key NOT IN (SELECT key FROM images) ORDER BY number"
            )
            yield from ((None, [marshal.loads(packed)]) for (packed,) in unlisted)
