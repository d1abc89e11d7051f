"""Instance masks on the host, as COCO's compressed run-length encoding (RLE) of the whole image."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

LEAST_MASK_SCORE = 0.5
"""A pixel belongs to the object if its mask score is higher, as in the Object Detection API."""


def encode_masks(masks: Iterable[np.ndarray]) -> np.ndarray:
    """Encode masks [H, W] of the whole image as run lengths, object [N] of bytes.

    Non-zero pixels belong to the object.
    """
    from pycocotools import mask as coco_mask

    runs = [bytes(coco_mask.encode(np.asfortranarray(m != 0, np.uint8))["counts"]) for m in masks]
    return np.array(runs, object)


def paste_masks(masks: np.ndarray, boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Stretch masks bilinearly to their boxes and encode them as run lengths, object [N] of bytes.

    Masks are float32 [N, h, w], 0..1; boxes float32 [N, 4], normalised, cut off at the image, in pixels.
    """
    pairs = zip(masks, boxes.tolist(), strict=True)
    return encode_masks(_pasted(mask, box, height, width) for mask, box in pairs)


def _pasted(mask: np.ndarray, box: Sequence[float], height: int, width: int) -> np.ndarray:
    """Return uint8 [height, width], 1 where the stretched mask exceeds the score limit."""
    ymin, xmin, ymax, xmax = box
    top, rows = _stretched(ymin * height, ymax * height, height, mask.shape[0])
    left, columns = _stretched(xmin * width, xmax * width, width, mask.shape[1])
    whole: np.ndarray = np.zeros((height, width), np.uint8, order="F")
    inside = rows @ mask.astype(np.float64) @ columns.T > LEAST_MASK_SCORE
    whole[top : top + len(rows), left : left + len(columns)] = inside
    return whole


def _stretched(low: float, high: float, length: int, cells: int) -> tuple[int, np.ndarray]:
    """Return the first pixel between two edges (pixels), and each cell's weights, float64 [pixels, cells].

    Interpolation is linear between cell centres and constant beyond the first and last.
    """
    first, end = (min(max(math.ceil(edge - 0.5), 0), length) for edge in (low, high))
    centres = np.arange(first, max(first, end)) + 0.5
    place = np.clip((centres - low) / max(high - low, 1e-9) * cells - 0.5, 0, cells - 1)
    weights = np.maximum(0.0, 1 - np.abs(place[:, np.newaxis] - np.arange(cells)))
    return first, weights


def decode_mask(counts: bytes, height: int, width: int) -> np.ndarray:
    """Decode run lengths to a mask, bool [height, width]."""
    from pycocotools import mask as coco_mask

    return np.asarray(coco_mask.decode(as_coco(counts, height, width)), bool)


def as_coco(counts: bytes, height: int, width: int) -> dict[str, Any]:
    """Return run lengths in COCO's form, as text for JSON."""
    return {"size": [height, width], "counts": counts.decode("ascii")}


def mask_areas(masks: Sequence[bytes] | np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the number of pixels of each mask, float64 [N]."""
    from pycocotools import mask as coco_mask

    runs = [as_coco(counts, height, width) for counts in masks]
    # pycocotools fails for more than 255 masks at once.
    parts = [coco_mask.area(runs[first : first + 255]) for first in range(0, len(runs), 255)]
    return np.concatenate([np.zeros(0), *parts])


def mask_boxes(masks: Sequence[bytes] | np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the boxes around masks, float64 [N, 4], x, y, width and height in pixels."""
    from pycocotools import mask as coco_mask

    return np.asarray(coco_mask.toBbox([as_coco(counts, height, width) for counts in masks]), np.float64)


def mask_iou(
    detected: Sequence[bytes] | np.ndarray,
    true: Sequence[bytes] | np.ndarray,
    is_crowd: np.ndarray,
    height: int,
    width: int,
) -> np.ndarray:
    """Overlap of detected masks with true ones, as in COCO.

    Args:
        detected: run lengths of D masks.
        true: run lengths of G masks.
        is_crowd: bool [G]; for a crowd, the union is the detection alone.
        height: rows of the image, pixels.
        width: columns of the image, pixels.

    Returns:
        float64 [D, G], in [0, 1].
    """
    from pycocotools import mask as coco_mask

    if not len(detected) or not len(true):
        return np.zeros((len(detected), len(true)))
    runs = [[as_coco(counts, height, width) for counts in masks] for masks in (detected, true)]
    return np.asarray(coco_mask.iou(*runs, is_crowd.tolist()), np.float64)
