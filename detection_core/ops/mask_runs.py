"""Instance masks on the host as COCO's compressed run lengths of the whole image (RLE, as pycocotools)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

LEAST_MASK_SCORE = 0.5
"""A pixel is the object's where its mask scores above it, as in the Object Detection API."""


def encode_masks(masks: Iterable[np.ndarray]) -> np.ndarray:
    """Return the run lengths of masks of the whole image.

    Args:
        masks: N of [H, W]; a pixel is the object's where it is not 0.

    Returns:
        object [N] of bytes.
    """
    from pycocotools import mask as coco_mask

    return _as_rows([bytes(coco_mask.encode(np.asfortranarray(m != 0, np.uint8))["counts"]) for m in masks])


def paste_masks(masks: np.ndarray, boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the run lengths of masks in the frame of boxes, stretched to their boxes bilinearly.

    Args:
        masks: float32 [N, h, w], 0..1.
        boxes: float32 [N, 4], normalised; what leaves the image is cut off.
        height: rows of the image, pixels.
        width: columns of the image, pixels.

    Returns:
        object [N] of bytes.
    """
    pairs = zip(masks, boxes.tolist(), strict=True)
    return encode_masks(_pasted(mask, box, height, width) for mask, box in pairs)


def _pasted(mask: np.ndarray, box: Sequence[float], height: int, width: int) -> np.ndarray:
    """Return uint8 [height, width]: 1 where the mask, stretched to the box, is the object's."""
    ymin, xmin, ymax, xmax = box
    top, rows = _stretched(ymin * height, ymax * height, height, mask.shape[0])
    left, columns = _stretched(xmin * width, xmax * width, width, mask.shape[1])
    whole: np.ndarray = np.zeros((height, width), np.uint8, order="F")
    inside = rows @ mask.astype(np.float64) @ columns.T > LEAST_MASK_SCORE
    whole[top : top + len(rows), left : left + len(columns)] = inside
    return whole


def _stretched(low: float, high: float, length: int, cells: int) -> tuple[int, np.ndarray]:
    """Return how a row of cells is read at the centres of the pixels between two edges.

    Args:
        low: first edge, pixels.
        high: last edge, pixels.
        length: pixels that there are.
        cells: of the mask.

    Returns:
        The first pixel, and the weight of each cell, float64 [pixels, cells]. Between the centres of two
        cells it is linear; beyond the first and last centre their value stays.
    """
    first, end = (min(max(math.ceil(edge - 0.5), 0), length) for edge in (low, high))
    centres = np.arange(first, max(first, end)) + 0.5
    place = np.clip((centres - low) / max(high - low, 1e-9) * cells - 0.5, 0, cells - 1)
    weights = np.maximum(0.0, 1 - np.abs(place[:, np.newaxis] - np.arange(cells)))
    return first, weights


def decode_mask(counts: bytes, height: int, width: int) -> np.ndarray:
    """Return the mask of run lengths, bool [height, width]."""
    from pycocotools import mask as coco_mask

    return np.asarray(coco_mask.decode(as_coco(counts, height, width)), bool)


def as_coco(counts: bytes, height: int, width: int) -> dict[str, Any]:
    """Return run lengths as COCO's tools have them; as text, so that JSON can hold them."""
    return {"size": [height, width], "counts": counts.decode("ascii")}


def mask_areas(masks: Sequence[bytes] | np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the pixels of each mask, float64 [N]."""
    from pycocotools import mask as coco_mask

    runs = [as_coco(counts, height, width) for counts in masks]
    return np.asarray(coco_mask.area(runs) if runs else [], np.float64)


def _as_rows(values: Sequence[bytes]) -> np.ndarray:
    rows: np.ndarray = np.empty(len(values), object)
    rows[:] = values
    return rows
