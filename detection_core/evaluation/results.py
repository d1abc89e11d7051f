"""Ground truth and detections of each evaluated image, without pixels, and their matches."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from detection_core.ops.mask_runs import mask_iou
from detection_core.structures import Instances


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluatedImage:
    """An image's ground truth and detections."""

    truth: Instances
    detections: Instances

    @property
    def labelled_classes(self) -> np.ndarray:
        """Verified classes: those of the image's labels and of its objects, int32 [L]."""
        return np.union1d(self.truth.labelled, self.truth.classes)


def only_labelled(image: EvaluatedImage) -> EvaluatedImage:
    """Drop detections of unverified classes; an image without labels keeps all."""
    if not image.truth.labelled.size:
        return image
    found = image.detections
    kept = np.isin(found.classes, image.labelled_classes)
    return dataclasses.replace(image, detections=found.take(kept))


def to_px(boxes: np.ndarray, truth: Instances) -> np.ndarray:
    """Convert normalised boxes, float32 [N, 4], to pixels of their image; ymin, xmin, ymax, xmax."""
    size = np.array([truth.height, truth.width] * 2, np.float32)
    return np.asarray(boxes, np.float32).reshape(-1, 4) * size


def box_areas(boxes: np.ndarray) -> np.ndarray:
    """Areas [N] of boxes [N, 4], in squared units of the boxes."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def iou_px(detected_px: np.ndarray, true_px: np.ndarray, is_crowd: np.ndarray) -> np.ndarray:
    """Overlap of detections with true boxes, as in COCO.

    Args:
        detected_px: [D, 4].
        true_px: [G, 4].
        is_crowd: bool [G]; for a crowd, the union is the detection alone: a detection may match any part.

    Returns:
        float64 [D, G], in [0, 1].
    """
    detected: np.ndarray = detected_px.astype(np.float64)
    true: np.ndarray = true_px.astype(np.float64)
    low = np.maximum(detected[:, None, :2], true[None, :, :2])
    high = np.minimum(detected[:, None, 2:], true[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=-1)
    areas = box_areas(detected)[:, None]
    union = np.where(is_crowd[None, :], areas, areas + box_areas(true)[None, :] - shared)
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


IOU_THRESHOLD = 0.5
NOT_MATCHED = -1
IN_CROWD = -2


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageMatch:
    """Matches of one image.

    Attributes:
        found_by: int [D], object of the same class found by each detection. `NOT_MATCHED` for a false
            positive; `IN_CROWD` for one in a crowd of its class, which does not count.
        overlaps: float64 [D, G], overlap of every detection with every object, across classes.
    """

    found_by: np.ndarray
    overlaps: np.ndarray


def match_image(
    image: EvaluatedImage, iou_threshold: float = IOU_THRESHOLD, *, masks: bool = False
) -> ImageMatch:
    """Match as COCO does: by descending score, each detection takes the best free object.

    The threshold is the least overlap; with `masks`, which all must have, masks are compared, not boxes.
    """
    truth, found = image.truth, image.detections
    if masks:
        overlaps = mask_iou(found.masks, truth.masks, truth.is_crowd, truth.height, truth.width)
    else:
        overlaps = iou_px(to_px(found.boxes, truth), to_px(truth.boxes, truth), truth.is_crowd)
    found_by = np.full(len(found.classes), NOT_MATCHED)
    near = (overlaps >= iou_threshold) & (found.classes[:, None] == truth.classes[None, :])
    found_by[(near & truth.is_crowd).any(axis=1)] = IN_CROWD
    free = ~truth.is_crowd
    for d in np.flatnonzero(near.any(axis=1)):
        candidates = np.where(near[d] & free, overlaps[d], -1.0)
        best = int(candidates.argmax())
        if candidates[best] >= 0:
            found_by[d] = best
            free[best] = False
    return ImageMatch(found_by=found_by, overlaps=overlaps)


def finds_any(matches: Sequence[ImageMatch]) -> bool:
    """Return whether any detection found an object."""
    return any(bool((match.found_by >= 0).any()) for match in matches)


def best_score_threshold(images: Sequence[EvaluatedImage], matches: Sequence[ImageMatch]) -> float:
    """Return the detection score with the highest F1 over all classes; 0.5 if nothing was found."""
    objects = sum(int((~image.truth.is_crowd).sum()) for image in images)
    counted = [match.found_by != IN_CROWD for match in matches]
    scores = np.concatenate(
        [i.detections.scores[c] for i, c in zip(images, counted, strict=True)] or [np.zeros(0)]
    )
    hits = np.concatenate([m.found_by[c] >= 0 for m, c in zip(matches, counted, strict=True)] or [scores > 0])
    if not hits.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(hits[order])
    f1 = 2 * found / (np.arange(1, len(order) + 1) + objects)
    return float(scores[order][int(f1.argmax())])
