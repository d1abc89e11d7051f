"""Encode instance masks as PNG files for records, directly from run lengths.

The Object Detection API stores a mask as an 8-bit grey PNG of the whole image with the values 0 and 1. PNG's
`Up` filter stores the difference to the pixel above. In COCO's run-length encoding, runs go down the columns.
So only the ends of runs give non-zero differences, and no mask has to be painted. Only the rows with
differences are deflated; the empty rows above and below come from a cache. Formats: PNG (ISO 15948), zlib
(RFC 1950), deflate (RFC 1951).
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"
_UP = 2  # the filter's number
_ADLER = 65521
_ZEROS = 1 << 16
_LAST_BLOCK = b"\x03\x00"  # an empty block, which ends a deflate stream


def encode_mask_pngs(edges: Sequence[np.ndarray], height: int, width: int) -> list[bytes]:
    """Return an 8-bit grey PNG of height x width pixels per mask: 1 on the runs, 0 elsewhere.

    Equal masks give equal bytes. Edges, int64 [2R] per mask, are begin and end (exclusive) of each run of
    ones down the columns. A place is `column * height + row`; places are strictly ascending.
    """
    # Shared, because its setup costs more than a mask.
    packer = zlib.compressobj(1, zlib.DEFLATED, -15, 8, zlib.Z_RLE)
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return [
        b"".join([_SIGNATURE, header, _chunk(b"IDAT", _pixels(e, height, width, packer)), _END])
        for e in edges
    ]


def _pixels(edges: np.ndarray, height: int, width: int, packer: Any) -> bytes:
    stride = width + 1
    if not edges.size:
        return _zlib_stream([_deflated_zeros(height * stride)], 1, height * stride)
    rows, columns, values, reaches_bottom = _differences(edges, height)
    first, end = int(rows.min()), height if reaches_bottom else int(rows.max()) + 1
    filtered: np.ndarray = np.zeros((end - first, stride), np.uint8)
    filtered[:, 0] = _UP
    filtered[rows - first, columns + 1] = values
    parts = [
        _deflated_zeros(first * stride),
        packer.compress(filtered) + packer.flush(zlib.Z_FULL_FLUSH),
        _deflated_zeros((height - end) * stride),
    ]
    # Adler-32 over all rows; zeros only matter through the number of bytes after the others.
    size, lines = height * stride, end - first
    low = 1 + _UP * lines + int(values.sum())
    high = size + _UP * (lines * size - stride * ((first + end - 1) * lines // 2))
    high += int((values * (size - (rows * stride + columns + 1))).sum())
    return _zlib_stream(parts, low, high)


def _differences(edges: np.ndarray, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Return rows, columns and differences (modulo 256) to the pixel above.

    Also return whether a run reaches the last row.
    """
    begins, ends = edges[0::2], edges[1::2]
    column: np.ndarray = begins // height
    more: np.ndarray = (ends - 1) // height - column
    goes_on = bool(more.any())
    if goes_on:
        # A run that continues in the next columns starts again at the top of each.
        before = np.cumsum(more) - more
        tops = np.repeat(column + 1 - before, more) + np.arange(more.sum())
        begins = np.concatenate([begins, tops * height])
    inside = ends % height != 0
    reaches_bottom = goes_on or not inside.all()
    ends = ends[inside] if reaches_bottom else ends
    places = np.concatenate([begins, ends])
    values = np.full(places.size, 255)
    values[: begins.size] = 1
    columns, rows = np.divmod(places, height)
    return rows, columns, values, bool(reaches_bottom)


def _zlib_stream(parts: Sequence[bytes], low: int, high: int) -> bytes:
    checksum = (high % _ADLER) << 16 | low % _ADLER
    return b"".join([b"\x78\x01", *parts, _LAST_BLOCK, struct.pack(">I", checksum)])


def _deflated_zeros(size: int) -> bytes:
    blocks, rest = divmod(size, _ZEROS)
    return _zero_block(_ZEROS) * blocks + (_zero_block(rest) if rest else b"")


@functools.lru_cache(maxsize=4096)
def _zero_block(size: int) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -12, 5)
    return packer.compress(bytes(size)) + packer.flush(zlib.Z_FULL_FLUSH)


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(data, zlib.crc32(kind))
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
