"""The perceptual hashes of the images of a split, in little memory."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import overload

from detection_core.validation.perceptual_hash import HASH_BYTES


class HashList(Sequence[bytes | None]):
    """Hashes in the order of a split's records, 33 bytes an image; None for an image that has none."""

    def __init__(self) -> None:
        self._hashes = bytearray()
        self._known = array.array("b")

    def append(self, found: bytes | None) -> None:
        """Keep the hash of the next image."""
        self._hashes += found if found is not None else bytes(HASH_BYTES)
        self._known.append(found is not None)

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._known)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes | None]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes | None] | None:
        """Return the hash of an image."""
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not self._known[index]:
            return None
        place = range(len(self))[index] * HASH_BYTES
        return bytes(self._hashes[place : place + HASH_BYTES])
