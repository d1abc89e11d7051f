"""Run a detector on the tiles of an image and on the whole image, and merge what it finds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from detection_core.evaluation.signature_runner import Runner, detect_batch
from detection_core.ops.mask_runs import as_coco, decode_mask, encode_masks
from detection_core.ops.tile_options import TileOptions
from detection_core.ops.tiles import MergedObject, merge_tiles, tile_windows
from detection_core.structures import Instances

_BATCH = 8
"""Most tiles that are detected in one call."""


class TiledRunner:
    """Runs a detector on overlapping tiles, for small objects, and on the whole image, for large ones."""

    def __init__(self, runner: Runner, options: TileOptions) -> None:
        """Take the detector to run, and how images are divided."""
        self.path = runner.path
        self._runner = runner
        self._options = options

    def __call__(self, image: np.ndarray, source_id: str = "") -> Instances:
        """Detect objects; see `Runner`. An image no larger than a tile is detected as a whole only."""
        height, width = image.shape[:2]
        windows = tile_windows(height, width, self._options)
        found = [self._runner(image, source_id)]
        if len(windows) == 1:
            return found[0]
        for first in range(0, len(windows), _BATCH):
            corners = windows[first : first + _BATCH].tolist()
            tiles = [image[top:bottom, left:right] for top, left, bottom, right in corners]
            found += detect_batch(self._runner, tiles, [source_id] * len(tiles))
        windows = np.concatenate([[(0, 0, height, width)], windows])
        return _merge(found, windows, (height, width), source_id)


def with_tiles(runner: Runner, options: TileOptions | None) -> Runner:
    """Return the detector run on tiles, or as it is without options."""
    return TiledRunner(runner, options) if options else runner


def _merge(
    found: Sequence[Instances], windows: np.ndarray, image: tuple[int, int], source_id: str
) -> Instances:
    """Merge the detections of each window, normalised to it, to those of the image."""
    windows_of = np.repeat(windows, [len(each.classes) for each in found], axis=0)
    boxes, scores, classes, masks = (
        np.concatenate([getattr(each, name) for each in found])
        for name in ("boxes", "scores", "classes", "masks")
    )
    corners = windows_of[:, [0, 1, 0, 1]]
    sides = windows_of[:, [2, 3, 2, 3]] - corners
    merged = merge_tiles(boxes * sides + corners, scores, classes, windows_of, image)
    kept = np.array([each.row for each in merged], np.int64)
    shapes: dict[str, Any] = {}
    if all(masks):
        shapes["masks"] = np.array([_join_masks(each, masks, windows_of, image) for each in merged], object)
    if len({each.keypoints.shape[1] for each in found}) == 1:
        keypoints = np.concatenate([each.keypoints for each in found])
        placed = (keypoints * sides[:, np.newaxis, :2] + corners[:, np.newaxis, :2]) / image
        shapes["keypoints"] = placed[kept].astype(np.float32)
    return Instances(
        source_id=source_id,
        height=image[0],
        width=image[1],
        boxes=(np.reshape([each.box for each in merged], (-1, 4)) / (*image, *image)).astype(np.float32),
        scores=np.array([each.score for each in merged], np.float32),
        classes=classes[kept],
        **shapes,
    )


def _join_masks(found: MergedObject, masks: np.ndarray, windows: np.ndarray, image: tuple[int, int]) -> bytes:
    """Return the union of the masks of an object's parts, as run lengths of the whole image."""
    from pycocotools import mask as coco_mask

    runs = []
    for row in found.parts:
        top, left, bottom, right = windows[row].tolist()
        counts = bytes(masks[row])
        if (bottom - top, right - left) != image:
            tile = decode_mask(counts, bottom - top, right - left)
            edges = ((top, image[0] - bottom), (left, image[1] - right))
            counts = bytes(encode_masks([np.pad(tile, edges)])[0])
        runs.append(as_coco(counts, *image))
    return bytes(coco_mask.merge(runs)["counts"])
