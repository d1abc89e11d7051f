"""Perceptual hashes: similar pictures have hashes that differ in few bits.

The hash is pHash (Zauner, "Implementation and Benchmarking of Perceptual Image Hash Functions", 2010,
https://www.phash.org/docs/pubs/thesis_zauner.pdf). It holds the signs of the lowest frequencies of the
picture's cosine transform. It has 256 bits: with the usual 64, one of a few hundred thousand pairs of
different pictures matches. The package imagehash is not used: it takes a square of frequencies, not the
lowest ones.
"""

import array
import functools
import io
from collections.abc import Sequence
from typing import overload

import numpy as np

from detection_core.data.pixels import read_thumbnail

BITS = 256
"""Bits of a hash."""

HASH_BYTES = BITS // 8

SIDE = 64
"""Rows and columns of the hashed grey picture."""

FLAT = 2.0
"""Minimum standard deviation of the grey levels, of 255; a picture below it counts as flat."""

_ROUNDING = 1e-3


def hash_image_file(data: bytes) -> bytes | None:
    """Hash an image file, turned by its EXIF orientation, as `perceptual_hash` does.

    A JPEG file is decoded at a fraction of its size, which costs a few milliseconds for 12 megapixels.

    Raises:
        ImageFault: if the file is too large or cannot be decoded.
    """
    return hash_picture(read_thumbnail(io.BytesIO(data), SIDE))


def hash_picture(grey: np.ndarray) -> bytes | None:
    """Hash grey levels, [SIDE, SIDE], from 0 to 255, from `pixels.read_thumbnail`, to `HASH_BYTES` bytes.

    It is None for a flat picture, for example a black one, which has no features to compare.
    """
    if grey.shape != (SIDE, SIDE):
        raise ValueError(
            f"expected {SIDE} x {SIDE} grey levels, found {grey.shape}; make the picture smaller"
        )
    levels: np.ndarray = grey.astype(np.float64)
    if levels.std() < FLAT:
        return None
    transform = _cosines() @ levels @ _cosines().T
    # Symmetric pictures have coefficients of exactly 0, where only rounding errors decide the sign.
    lowest = np.where(np.abs(transform) < _ROUNDING, 0.0, transform).ravel()[lowest_frequencies()]
    return np.packbits(lowest > np.median(lowest)).tobytes()


@functools.cache
def _cosines() -> np.ndarray:
    """Return the matrix of the orthonormal discrete cosine transform of type II, float64 [SIDE, SIDE]."""
    k, n = np.mgrid[:SIDE, :SIDE]
    cosines: np.ndarray = np.sqrt(2 / SIDE) * np.cos(np.pi * k * (2 * n + 1) / (2 * SIDE))
    cosines[0] /= np.sqrt(2)
    return cosines


@functools.cache
def lowest_frequencies() -> np.ndarray:
    """Return the indices of the `BITS` lowest frequencies, except the mean, flattened, int64."""
    row, column = np.mgrid[:SIDE, :SIDE]
    order: np.ndarray = np.lexsort((column.ravel(), (row + column).ravel()))
    return order[1 : BITS + 1]


class HashList(Sequence[bytes | None]):
    """Hashes in the order of a split's records, 33 bytes per image; None for an image without a hash."""

    def __init__(self) -> None:
        self._hashes = bytearray()
        self._known = array.array("b")

    def append(self, found: bytes | None) -> None:
        """Add the hash of the next image."""
        self._hashes += found if found is not None else bytes(HASH_BYTES)
        self._known.append(found is not None)

    def __iadd__(self, others: "HashList") -> "HashList":
        self._hashes += others._hashes
        self._known += others._known
        return self

    def __len__(self) -> int:
        return len(self._known)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes | None]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes | None] | None:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not self._known[index]:
            return None
        place = range(len(self))[index] * HASH_BYTES
        return bytes(self._hashes[place : place + HASH_BYTES])
