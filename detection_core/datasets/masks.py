"""Converts annotated masks to the PNG files in records, directly from run lengths.

The Object Detection API stores a mask as an 8-bit grey PNG of the whole image with the values 0 and 1. PNG's
`Up` filter stores the difference to the pixel above. In COCO's run-length encoding, runs go down the columns.
So only the ends of runs give non-zero differences, and no mask has to be painted. Only the rows with
differences are deflated; the empty rows above and below come from a cache. Formats: PNG (ISO 15948), zlib
(RFC 1950), deflate (RFC 1951).
"""

import functools
import io
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from detection_core.data.image_header import MAX_FILE_BYTES, ImageFault
from detection_core.data.pixels import open_picture
from detection_core.datasets.annotated_images import (
    AnnotatedObject,
    Mask,
    MaskFile,
    Polygons,
    Rejected,
    RunLengths,
)
from detection_core.errors import is_exhausted
from detection_core.storage import files

_POINTS = 3
"""Minimum number of points of a polygon."""

_COLOURS = {"RGBA", "LA", "PA", "CMYK", "YCbCr"}
"""Pillow's modes with more channels than a mask has."""

_LONGEST = 6
"""Maximum characters of a run length in the compressed form: 5 bits each for 32."""


def has_area(mask: Mask | None) -> bool:
    """Return whether a mask may have pixels; tools write empty polygons for boxes without a mask."""
    if isinstance(mask, Polygons):
        return any(len(ring) >= 2 * _POINTS for ring in mask.rings)
    return mask is not None


def encode_masks(objects: Sequence[AnnotatedObject], height: int, width: int) -> list[bytes]:
    """Return each object's mask as a PNG file of the image's size; an empty one if it has no mask.

    Polygons are filled as in pycocotools.

    Raises:
        Rejected: if a mask cannot be used.
    """
    edges = []
    for item in objects:
        try:
            edges.append(_edges(item.mask, height, width))
        except (ValueError, TypeError, OverflowError) as e:
            raise Rejected("malformed_mask", f"{item.label}: {e}") from e
    return encode_mask_pngs(edges, height, width)


def _edges(mask: Mask | None, height: int, width: int) -> np.ndarray:
    """Return the begin and end of the runs of ones."""
    if mask is None or not has_area(mask):
        return np.zeros(0, np.int64)
    if isinstance(mask, MaskFile):
        down = read_mask(mask.path, height, width).T.ravel()
        return np.flatnonzero(np.diff(down, prepend=False, append=False))
    if isinstance(mask, RunLengths) and not isinstance(mask.counts, str):
        return _checked_edges(np.asarray(mask.counts), mask, height, width)
    return _checked_edges(_unpack(_packed_runs(mask, height, width)), mask, height, width)


def pack_mask(mask: Polygons | RunLengths, height: int, width: int) -> bytes:
    """Return a mask as run lengths in COCO's compressed form, checked against the image's size.

    Polygons are filled as in pycocotools; those with fewer than three points are left out.

    Raises:
        ValueError, TypeError, OverflowError: if it is malformed, of another size, or reaches far beyond the
            image.
    """
    if isinstance(mask, Polygons):
        return _packed_runs(mask, height, width)
    if isinstance(mask.counts, str):
        packed = _checked_packed(mask.counts)
        _checked_edges(_unpack(packed), mask, height, width)
        return packed
    from pycocotools import mask as coco_mask

    counts = np.asarray(mask.counts)
    _checked_edges(counts, mask, height, width)
    runs = {"size": [height, width], "counts": counts.tolist()}
    return bytes(coco_mask.frPyObjects(runs, height, width)["counts"])


def _packed_runs(mask: Polygons | RunLengths, height: int, width: int) -> bytes:
    """Return the compressed run lengths of a polygon mask, or of the annotation."""
    if isinstance(mask, RunLengths):
        return _checked_packed(str(mask.counts))
    from pycocotools import mask as coco_mask

    rings = [_checked_ring(ring, height, width) for ring in mask.rings]
    runs = coco_mask.frPyObjects([r for r in rings if r.size >= 2 * _POINTS], height, width)
    merged = runs[0] if len(runs) == 1 else coco_mask.merge(runs)
    return bytes(merged["counts"])


def _checked_ring(ring: Sequence[float], height: int, width: int) -> np.ndarray:
    points = np.asarray(ring, np.float64)
    if points.ndim != 1 or points.size % 2:
        raise ValueError(f"expected x and y of each of a polygon's points, found {points.size} numbers")
    # Comparisons with NaN are false. Filling needs memory for the length of an edge, so edges much longer
    # than the image are rejected; pycocotools clips the rest.
    longest = 2 * max(height, width)
    if not np.abs(points).max(initial=0.0) <= longest:
        raise ValueError(
            f"expected a polygon of finite numbers near an image of {width}x{height}, found {ring!r:.100}"
        )
    return points


def _checked_packed(counts: str) -> bytes:
    try:
        packed = counts.encode("ascii")
    except UnicodeEncodeError:
        packed = b""
    lengths = [len(part) for part in packed.translate(_KINDS).split(b"e")]
    if not packed or packed.translate(None, _CHARACTERS) or lengths[-1] or max(lengths) >= _LONGEST:
        raise ValueError(f"expected COCO's compressed run lengths, found {counts!r:.80}")
    return packed


_CHARACTERS = bytes(range(48, 112))
_KINDS = bytes(ord("e") if 48 <= c < 80 else ord("m") for c in range(256))
"""Class of each character: `e` (below 80) ends a run length; after `m` more characters follow."""


def _unpack(packed: bytes) -> np.ndarray:
    """Decode COCO's compressed run lengths.

    A character holds five bits, the lowest first; its sixth bit is set if more follow. From the fourth length
    on, the difference to the length two before is stored (rleToString of pycocotools' maskApi.c).
    """
    characters = np.frombuffer(packed, np.uint8).astype(np.int64) - 48
    ends = np.flatnonzero(characters < 32)
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(characters.size) - np.repeat(starts, ends - starts + 1)
    counts: np.ndarray = np.add.reduceat((characters & 31) << 5 * place, starts)
    counts -= np.where(characters[ends] & 16, np.int64(1) << 5 * (ends - starts + 1), 0)
    counts[1::2] = np.cumsum(counts[1::2])
    counts[2::2] = np.cumsum(counts[2::2])
    return counts


def _checked_edges(counts: np.ndarray, mask: Polygons | RunLengths, height: int, width: int) -> np.ndarray:
    """Return the begin and end of the runs of ones."""
    if isinstance(mask, Polygons):  # made by pycocotools, hence valid
        return np.cumsum(counts)[: counts.size - counts.size % 2]
    if (mask.height, mask.width) != (height, width):
        found = f"{mask.width}x{mask.height}"
        raise ValueError(f"expected run lengths for {width}x{height} pixels, found {found}")
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise ValueError(f"expected run lengths as whole numbers, found {counts!r:.80}")
    counts = counts.astype(np.int64)
    if (counts < 0).any() or (counts > height * width).any() or counts.sum() != height * width:
        raise ValueError(
            f"expected run lengths that add up to {width}x{height} pixels, found {int(counts.sum())} or a "
            "negative one"
        )
    # Boundaries between runs of zeros and ones; the image's end only if it ends a run of ones.
    edges = np.cumsum(counts)[: counts.size - counts.size % 2]
    if (counts[1:] == 0).any():  # a run of length 0 joins its neighbours
        places, times = np.unique(edges, return_counts=True)
        edges = places[times % 2 == 1]
    return edges


def read_mask(path: str, height: int, width: int) -> np.ndarray:
    """Return a mask file as bool [height, width], true where not zero; ValueError if unreadable."""
    from PIL import Image

    try:
        inside = decode_mask_file(files.read_regular(path, MAX_FILE_BYTES))
    except (OSError, ImageFault) as e:
        if is_exhausted(e):
            raise
        raise ValueError(f"expected a mask, found a file that cannot be read: {path} ({e})") from e
    if inside.shape != (height, width):
        stretched = Image.fromarray(inside).resize((width, height), Image.Resampling.NEAREST)
        inside = np.asarray(stretched)
    return inside


def decode_mask_file(data: bytes) -> np.ndarray:
    """Return a mask's image file as bool [H, W], true where not zero; ImageFault if damaged."""
    with open_picture(io.BytesIO(data)) as picture:
        pixels = np.asarray(picture.convert("RGB") if picture.mode in _COLOURS else picture)
    return pixels.any(axis=-1) if pixels.ndim > 2 else pixels != 0


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
