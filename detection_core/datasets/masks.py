"""Masks as annotated to the PNG files that records hold."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence

import numpy as np

from detection_core.data.image_header import MAX_FILE_BYTES, ImageFault
from detection_core.data.mask_png import encode_mask_pngs
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
"""Fewest points of a polygon that covers anything."""

_COLOURS = {"RGBA", "LA", "PA", "CMYK", "YCbCr"}
"""Pillow's modes that have more channels than a mask means."""

_LONGEST = 6
"""Most characters of a run's length in the compressed form: 5 bits each for 32."""


def has_area(mask: Mask | None) -> bool:
    """Tell whether a mask may cover anything; tools write empty polygons for boxes without a mask."""
    if isinstance(mask, Polygons):
        return any(len(ring) >= 2 * _POINTS for ring in mask.rings)
    return mask is not None


def encode_masks(objects: Sequence[AnnotatedObject], height: int, width: int) -> list[bytes]:
    """Return the mask of each object as a PNG file of the image's size; without any pixel where it has none.

    Polygons are filled as pycocotools fills them.

    Args:
        objects: of one image.
        height: of the image in pixels, as its boxes and masks are meant.
        width: likewise.

    Raises:
        Rejected: for a mask that cannot be used.
    """
    packed: list[bytes] = []
    edges: list[np.ndarray | None] = []
    for item in objects:
        try:
            if not has_area(item.mask) or item.mask is None:
                edges.append(np.zeros(0, np.int64))
            elif isinstance(item.mask, MaskFile):
                edges.append(_file_edges(item.mask, height, width))
            elif isinstance(item.mask, RunLengths) and not isinstance(item.mask.counts, str):
                edges.append(_checked_edges(np.asarray(item.mask.counts), item.mask, height, width))
            else:
                packed.append(_packed_runs(item.mask, height, width))
                edges.append(None)
        except (ValueError, TypeError, OverflowError) as e:
            raise Rejected("malformed_mask", f"{item.label}: {e}") from e
    unpacked = iter(_unpack(packed))
    filled = []
    for item, known in zip(objects, edges, strict=True):
        try:
            filled.append(
                _checked_edges(next(unpacked), item.mask, height, width) if known is None else known
            )
        except ValueError as e:
            raise Rejected("malformed_mask", f"{item.label}: {e}") from e
    return encode_mask_pngs(filled, height, width)


def pack_run_lengths(mask: RunLengths, height: int, width: int) -> bytes:
    """Return run lengths in COCO's compressed form, checked to be a mask of an image of this size.

    Raises:
        ValueError: when they are no run lengths, or of another size. TypeError, OverflowError: likewise.
    """
    if isinstance(mask.counts, str):
        packed = _checked_packed(mask.counts)
        _checked_edges(_unpack([packed])[0], mask, height, width)
        return packed
    from pycocotools import mask as coco_mask

    counts = np.asarray(mask.counts)
    _checked_edges(counts, mask, height, width)
    runs = {"size": [height, width], "counts": counts.tolist()}
    return bytes(coco_mask.frPyObjects(runs, height, width)["counts"])


def _packed_runs(mask: Mask, height: int, width: int) -> bytes:
    """Return pycocotools' compressed run lengths of polygons, or those that the annotation gives."""
    if isinstance(mask, RunLengths):
        return _checked_packed(str(mask.counts))
    from pycocotools import mask as coco_mask

    assert isinstance(mask, Polygons)
    rings = [_checked_ring(ring, height, width) for ring in mask.rings]
    runs = coco_mask.frPyObjects([r for r in rings if r.size >= 2 * _POINTS], height, width)
    merged = runs[0] if len(runs) == 1 else coco_mask.merge(runs)
    return bytes(merged["counts"])


def _checked_ring(ring: Sequence[float], height: int, width: int) -> np.ndarray:
    points = np.asarray(ring, np.float64)
    if points.ndim != 1 or points.size % 2:
        raise ValueError(f"expected x and y of each of a polygon's points, found {points.size} numbers")
    # Not a number compares false. Filling takes memory by how long an edge is, so none may be much longer
    # than the image; pycocotools clips what leaves it.
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
"""Of a run length's characters the last is below 80: `e`; more follow each other one: `m`."""


def _unpack(packed: Sequence[bytes]) -> list[np.ndarray]:
    """Return the run lengths of COCO's compressed form, of all masks of an image at once.

    Five bits a character, the least first, the sixth says that more follow; a length from the fourth on is
    stored as the difference to the one but one before (rleToString of pycocotools' maskApi.c).
    """
    if not packed:
        return []
    characters = np.frombuffer(b"".join(packed), np.uint8).astype(np.int64) - 48
    ends = np.flatnonzero(characters < 32)
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(characters.size) - np.repeat(starts, ends - starts + 1)
    values: np.ndarray = np.add.reduceat((characters & 31) << 5 * place, starts)
    values -= np.where(characters[ends] & 16, np.int64(1) << 5 * (ends - starts + 1), 0)
    # How many lengths each mask has: as many as end before its own end.
    through = list(itertools.accumulate(map(len, packed)))[:-1]
    found = np.split(values, [int((ends < end).sum()) for end in through])
    for counts in found:
        counts[1::2] = np.cumsum(counts[1::2])
        counts[2::2] = np.cumsum(counts[2::2])
    return found


def _checked_edges(counts: np.ndarray, mask: Mask | None, height: int, width: int) -> np.ndarray:
    """Return where the runs of ones begin and end."""
    if isinstance(mask, Polygons):  # pycocotools has made them
        return np.cumsum(counts)[: counts.size - counts.size % 2]
    size = (mask.height, mask.width) if isinstance(mask, RunLengths) else (height, width)
    if size != (height, width):
        raise ValueError(f"expected run lengths for {width}x{height} pixels, found {size[1]}x{size[0]}")
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise ValueError(f"expected run lengths as whole numbers, found {counts!r:.80}")
    counts = counts.astype(np.int64)
    if (counts < 0).any() or (counts > height * width).any() or counts.sum() != height * width:
        raise ValueError(
            f"expected run lengths that add up to {width}x{height} pixels, found {int(counts.sum())} or a "
            "negative one"
        )
    # Where runs of zeros and of ones meet; the end of the image only where it ends ones.
    edges = np.cumsum(counts)[: counts.size - counts.size % 2]
    if (counts[1:] == 0).any():  # what a run of no length divides is one run
        places, times = np.unique(edges, return_counts=True)
        edges = places[times % 2 == 1]
    return edges


def _file_edges(mask: MaskFile, height: int, width: int) -> np.ndarray:
    from PIL import Image

    try:
        data = files.read_regular(mask.path, MAX_FILE_BYTES)
        with open_picture(io.BytesIO(data)) as picture:
            pixels = np.asarray(picture.convert("RGB") if picture.mode in _COLOURS else picture)
    except (OSError, ImageFault) as e:
        if is_exhausted(e):
            raise
        raise ValueError(f"expected a mask, found a file that cannot be read: {mask.path} ({e})") from e
    inside = pixels.any(axis=-1) if pixels.ndim > 2 else pixels != 0
    if inside.shape != (height, width):
        stretched = Image.fromarray(inside).resize((width, height), Image.Resampling.NEAREST)
        inside = np.asarray(stretched)
    down = inside.T.ravel()
    return np.flatnonzero(np.diff(down, prepend=False, append=False))
