"""Perceptual hashes: pictures that look alike have hashes that differ in few bits.

The hash is pHash (Zauner, "Implementation and Benchmarking of Perceptual Image Hash Functions", 2010,
https://www.phash.org/docs/pubs/thesis_zauner.pdf): signs of the lowest frequencies of the picture's cosine
transform, here 256 of them instead of 64, as 64 bits take one of a few hundred thousand pairs of different
pictures for the same. By hand, as the package imagehash takes a square of frequencies, not the lowest.
"""

from __future__ import annotations

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
"""Rows and columns of the grey picture that is hashed."""

FLAT = 2.0
"""Standard deviation of the grey levels below which a picture shows nothing, of 255."""

_ROUNDING = 1e-3


def hash_image_file(data: bytes) -> bytes | None:
    """Hash an image file, turned as its EXIF orientation says.

    A JPEG file is decoded at a fraction of its size, which costs a few milliseconds for 12 megapixels.

    Args:
        data: the whole file.

    Returns:
        As `perceptual_hash`.

    Raises:
        ImageFault: for a file that cannot be decoded or is too large to be.
    """
    return perceptual_hash(read_thumbnail(io.BytesIO(data), SIDE))


def perceptual_hash(grey: np.ndarray) -> bytes | None:
    """Hash a picture.

    Args:
        grey: float or integer [SIDE, SIDE], grey levels from 0 to 255, as `pixels.read_thumbnail` gives them.

    Returns:
        `HASH_BYTES` bytes; None for a flat picture, such as a black one, which has no features to compare.
    """
    if grey.shape != (SIDE, SIDE):
        raise ValueError(
            f"expected {SIDE} x {SIDE} grey levels, found {grey.shape}; make the picture smaller"
        )
    levels: np.ndarray = grey.astype(np.float64)
    if levels.std() < FLAT:
        return None
    transform = _cosines() @ levels @ _cosines().T
    # Symmetric pictures have coefficients of exactly 0, whose rounding errors say nothing.
    lowest = np.where(np.abs(transform) < _ROUNDING, 0.0, transform).ravel()[lowest_frequencies()]
    return np.packbits(lowest > np.median(lowest)).tobytes()


def hash_distance(one: bytes, other: bytes) -> int:
    """Return in how many bits two hashes differ."""
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_count()


@functools.cache
def _cosines() -> np.ndarray:
    """Return the matrix of the orthonormal discrete cosine transform of type II, float64 [SIDE, SIDE]."""
    k, n = np.mgrid[:SIDE, :SIDE]
    cosines: np.ndarray = np.sqrt(2 / SIDE) * np.cos(np.pi * k * (2 * n + 1) / (2 * SIDE))
    cosines[0] /= np.sqrt(2)
    return cosines


@functools.cache
def lowest_frequencies() -> np.ndarray:
    """Return the indices of the `BITS` lowest frequencies but the mean in a flattened transform, int64."""
    row, column = np.mgrid[:SIDE, :SIDE]
    order: np.ndarray = np.lexsort((column.ravel(), (row + column).ravel()))
    return order[1 : BITS + 1]


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
