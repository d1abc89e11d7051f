"""Groups the annotations of each image on disk, for files that scatter them."""

import collections
import contextlib
import itertools
import marshal
import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from detection_core.bounded.limits import MAX_OBJECTS

CACHE_KIB = 1 << 15
"""Memory that an on-disk index may use before it writes."""

BLOCK = 1 << 9
"""Number of consecutive images whose parts are written together."""

MOST_PACKED_BYTES = 1 << 24
"""Size of the parts that wait to be written, and of a block's parts in memory."""

_BATCH = 5000

_EARLY, _LATE, _UNPLACED, _UNLISTED, _ALONE = range(5)
"""Kinds of parts. Those added before or after their image are stored by block. Unplaced parts have no image
yet, unlisted ones have none at the end. Parts in a block that is too large are stored by image.
"""


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

    Only the images' keys are in memory; the rest is on disk. Parts of neighbouring images are written
    together in blocks, because single writes would be slow.

    Values must be supported by `marshal`: numbers, texts, and lists and dictionaries of them. The index is
    private to the process, so its format may change with Python.
    """

    def __init__(self) -> None:
        self._index = open_index(
            "CREATE TABLE images (place INTEGER PRIMARY KEY, packed BLOB);"
            "CREATE TABLE parts (number INTEGER PRIMARY KEY, kind INTEGER, block INTEGER, packed BLOB);"
        )
        self._places: dict[Any, int] = {}
        self._again: dict[int, list[int]] = collections.defaultdict(list)
        self._count = 0
        self._images: list[tuple[int, bytes]] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._waiting: dict[tuple[int, int], list[tuple[Any, bytes]]] = collections.defaultdict(list)
        self._waiting_bytes = 0

    def __contains__(self, key: Any) -> bool:
        """Return whether an image with this key has been added."""
        return key in self._places

    def add_image(self, key: Any, value: Any) -> None:
        """Add an image with a number or text as key; equal keys share parts; TypeError for other keys."""
        place = self._count
        if isinstance(key, float) and math.isnan(key):
            raise TypeError(key)
        first = self._places.setdefault(key, place)
        if first != place:
            self._again[first].append(place)
        self._count += 1
        packed = marshal.dumps(value)
        self._images.append((place, packed))
        self._waits(len(packed))

    def add_part(self, key: Any, value: Any) -> None:
        """Add a part of an image, by the image's key. Raises TypeError if no image can have this key."""
        hash(key)
        self._keys.append(key)
        self._values.append(value)
        if len(self._keys) >= _BATCH:
            self._flush()

    def add_parts(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Add parts of images, each by the key of its image, and keep them packed.

        Raises:
            TypeError: if no image can have one of the keys; then no part is added.
        """
        places = list(map(self._places.get, keys))
        self._flush()
        self._pack(keys, values, places)

    def _flush(self) -> None:
        keys, values = self._keys, self._values
        self._keys, self._values = [], []
        self._pack(keys, values, map(self._places.get, keys))

    def _pack(self, keys: Iterable[Any], values: Iterable[Any], places: Iterable[int | None]) -> None:
        of_image: dict[int, list[Any]] = collections.defaultdict(list)
        for key, value, place in zip(keys, values, places, strict=True):
            if place is None:
                self._wait(_UNPLACED, 0, key, marshal.dumps([value]))
            else:
                of_image[place].append(value)
        size = 0
        for place, own in of_image.items():
            packed = marshal.dumps(own)
            size += len(packed)
            self._waiting[_LATE, place // BLOCK].append((place, packed))
        self._waits(size)

    def _wait(self, kind: int, block: int, place: Any, packed: bytes) -> None:
        self._waiting[kind, block].append((place, packed))
        self._waits(len(packed))

    def _waits(self, size: int) -> None:
        self._waiting_bytes += size
        if self._waiting_bytes > MOST_PACKED_BYTES:
            self._write()

    def _write(self) -> None:
        self._index.executemany("INSERT INTO images VALUES (?, ?)", self._images)
        self._index.executemany(
            "INSERT INTO parts (kind, block, packed) VALUES (?, ?, ?)",
            ((*where, marshal.dumps(parts)) for where, parts in self._waiting.items()),
        )
        self._images, self._waiting_bytes = [], 0
        self._waiting.clear()

    def __iter__(self) -> Iterator[tuple[Any, list[Any]]]:
        """Yield each image with its parts, both in the order of addition, then delete everything.

        Of an image with more than `MAX_OBJECTS` parts, only the first `MAX_OBJECTS` + 1 are yielded. Parts
        without an image come last, each with None for the image.
        """
        self._flush()
        self._write()
        self._index.execute("CREATE INDEX parts_of ON parts (kind, block)")
        self._place_early()
        self._share()
        with contextlib.closing(self._index):
            images = self._index.execute("SELECT packed FROM images ORDER BY place")
            blocks = map(self._of_block, range(-(-self._count // BLOCK)))
            for parts, (image,) in zip(itertools.chain.from_iterable(blocks), images, strict=False):
                values = itertools.chain.from_iterable(map(marshal.loads, parts))
                yield marshal.loads(image), list(itertools.islice(values, MAX_OBJECTS + 1))
                collections.deque(parts, maxlen=0)
            for _, packed in self._rows(_UNLISTED, 0):
                yield None, marshal.loads(packed)

    def _place_early(self) -> None:
        """Assign the parts that were added before their image."""
        for key, packed in self._rows(_UNPLACED, 0):
            place = self._places.get(key)
            if place is None:
                self._wait(_UNLISTED, 0, key, packed)
            else:
                self._wait(_EARLY, place // BLOCK, place, packed)
        self._write()

    def _share(self) -> None:
        """Copy an image's parts to the other images with its key."""
        for block in sorted({place // BLOCK for place in self._again}):
            for kind in (_EARLY, _LATE):
                for place, packed in self._rows(kind, block):
                    for again in self._again.get(place, ()):
                        self._wait(kind, again // BLOCK, again, packed)
            self._write()

    def _of_block(self, block: int) -> Iterator[Iterable[bytes]]:
        """Yield the packed parts of each image of a block."""
        [(size,)] = self._index.execute(
            "SELECT sum(length(packed)) FROM parts WHERE kind IN (?, ?) AND block = ?", (_EARLY, _LATE, block)
        )
        parts = itertools.chain.from_iterable(self._rows(kind, block) for kind in (_EARLY, _LATE))
        if (size or 0) <= MOST_PACKED_BYTES:
            own: list[list[bytes]] = [[] for _ in range(BLOCK)]
            for place, packed in parts:
                own[place % BLOCK].append(packed)
            yield from own
            return
        for place, packed in parts:
            self._wait(_ALONE, place, place, packed)
        self._write()
        for place in range(block * BLOCK, (block + 1) * BLOCK):
            yield (packed for _, packed in self._rows(_ALONE, place))

    def _rows(self, kind: int, block: int) -> Iterator[tuple[Any, bytes]]:
        """Yield index or key, and the packed parts, of the rows of a kind and block."""
        rows = self._index.execute(
            "SELECT packed FROM parts WHERE kind = ? AND block = ? ORDER BY number", (kind, block)
        )
        return itertools.chain.from_iterable(marshal.loads(packed) for (packed,) in rows)
