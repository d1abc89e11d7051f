"""Overlapping tiles of an image, and merging what a detector finds in them.

Slicing aided hyper inference: Akyon, Altinuc and Temizel, "Slicing aided hyper inference and fine-tuning for
small object detection", 2022, https://arxiv.org/abs/2202.06934. The last tile of a row or column ends at the
image's edge, as there.
"""

import dataclasses

import numpy as np

from detection_core.ops.tile_options import TileOptions

SAME_OBJECT = 0.5
"""Minimum overlap of two boxes of one object."""

_NEAR_EDGE = 0.01
"""Distance of a box from its tile's edge, as a fraction of the tile's side, up to which it counts as cut."""


def tile_windows(height: int, width: int, options: TileOptions) -> np.ndarray:
    """Return the tiles that cover an image, int64 [T, 4] (top, left, bottom, right) in pixels, half open.

    All have one size, which is below `options.size` along a side of the image that is shorter.
    """
    rows, columns = (_starts(side, options) for side in (height, width))
    return np.array(
        [
            (top, left, min(top + options.size, height), min(left + options.size, width))
            for top in rows
            for left in columns
        ],
        np.int64,
    )


def _starts(length: int, options: TileOptions) -> list[int]:
    last = length - options.size
    if last <= 0:
        return [0]
    step = max(1, options.size - round(options.size * options.overlap))
    return [*range(0, last, step), last]


@dataclasses.dataclass(kw_only=True)
class MergedObject:
    """An object that was found in one or more tiles.

    Attributes:
        row: of the detection that gives its class, keypoints and, if alone in `parts`, its box.
        score: highest score.
        box: float64 [4], pixels of the image.
        parts: rows of the detections that it consists of: one, or pieces that tiles cut apart.
    """

    row: int
    score: float
    box: np.ndarray
    parts: list[int]


def merge_tiles(
    boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray, windows: np.ndarray, image: tuple[int, int]
) -> list[MergedObject]:
    """Merge what was found in tiles, and in the whole image, to one detection an object.

    Detections of a class are taken by falling score, as in non-maximum suppression. A box that ends at an
    edge between tiles is cut: it may be a part of an object. It is compared with another box in the area
    that both their tiles show, where two views of one object agree. A cut box is replaced by a matching box
    that is not cut, else joined with a matching cut one. A cut box that lies in a better box is dropped.
    Objects that only overlap are kept, unlike by intersection over the smaller box.

    Args:
        boxes: [D, 4] (ymin, xmin, ymax, xmax) in pixels of the image.
        scores: [D].
        classes: [D].
        windows: [D, 4], the tile of each detection, as from `tile_windows`; the whole image is one too.
        image: rows and columns, pixels.

    Returns:
        The objects by falling score.
    """
    found = []
    for label in np.unique(classes):
        rows = np.flatnonzero(classes == label)
        rows = rows[np.argsort(-scores[rows], kind="stable")]
        found += _merge_class(rows, boxes[rows].astype(np.float64), scores[rows], windows[rows], image)
    return sorted(found, key=lambda each: -each.score)


def _merge_class(
    rows: np.ndarray, boxes: np.ndarray, scores: np.ndarray, windows: np.ndarray, image: tuple[int, int]
) -> list[MergedObject]:
    """Merge the detections of a class, given by falling score; `rows` are their numbers in the result."""
    cut = is_cut(boxes, windows, image)
    left: np.ndarray = np.ones(len(rows), bool)
    merged = []
    for first in range(len(rows)):
        if not left[first]:
            continue
        left[first] = False
        one = MergedObject(row=int(rows[first]), score=float(scores[first]), box=boxes[first], parts=[])
        parts, window, is_part = [first], windows[first], bool(cut[first])
        while (near := np.flatnonzero(left & _touch(boxes, one.box))).size:
            same = _are_same(one.box, window, boxes[near], windows[near], is_part | cut[near])
            if not (is_part and same.any()):
                share = _area(_common(boxes[near], one.box)) / np.maximum(_area(boxes[near]), 1e-9)
                inside = cut[near] & (share >= SAME_OBJECT)
                left[near[same | inside]] = False
                break
            other = int(near[same.argmax()])
            left[other] = False
            if cut[other]:
                one.box, window = _around(one.box, boxes[other]), _around(window, windows[other])
                parts.append(other)
            else:
                one.row, one.box, window = int(rows[other]), boxes[other], windows[other]
                parts = [other]
            is_part = bool(is_cut(one.box, window, image))
        one.parts = rows[parts].tolist()
        merged.append(one)
    return merged


def is_cut(boxes: np.ndarray, windows: np.ndarray, image: tuple[int, int]) -> np.ndarray:
    """Return whether boxes [..., 4] end at an edge of their tile that is not the image's; bool [...]."""
    height, width = image
    sides = windows[..., 2:] - windows[..., :2]
    near = np.abs(boxes - windows) <= 1.0 + _NEAR_EDGE * np.concatenate([sides, sides], axis=-1)
    return np.asarray((near & (windows != (0, 0, height, width))).any(axis=-1))


def _are_same(
    box: np.ndarray, window: np.ndarray, boxes: np.ndarray, windows: np.ndarray, cut: np.ndarray
) -> np.ndarray:
    """Return whether boxes show the object of `box`; `cut` pairs are compared in the common area of tiles."""
    common = _common(window, windows)
    area = np.where(cut[:, np.newaxis], common, np.array([-np.inf, -np.inf, np.inf, np.inf]))
    one, others = _common(box, area), _common(boxes, area)
    shared = _area(_common(one, others))
    return np.asarray(shared >= SAME_OBJECT * np.maximum(_area(one) + _area(others) - shared, 1e-9))


def _touch(boxes: np.ndarray, box: np.ndarray) -> np.ndarray:
    top, left, bottom, right = boxes.T
    return np.asarray((top < box[2]) & (left < box[3]) & (bottom > box[0]) & (right > box[1]))


def _common(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    low = np.maximum(one[..., :2], other[..., :2])
    return np.concatenate([low, np.maximum(np.minimum(one[..., 2:], other[..., 2:]), low)], axis=-1)


def _around(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.concatenate([np.minimum(one[:2], other[:2]), np.maximum(one[2:], other[2:])])


def _area(boxes: np.ndarray) -> np.ndarray:
    return np.asarray((boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1]))
