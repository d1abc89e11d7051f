"""Ground truth and detections of each evaluated image, without pixels, and their matches."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from detection_core.ops.mask_runs import mask_iou
from detection_core.structures import Instances


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluatedImage:
    """An image's ground truth and detections.

    `brightness` is the mean of its values, 0 to 255; NaN without an image.
    """

    truth: Instances
    detections: Instances
    brightness: float = float("nan")

    @property
    def sized_detections(self) -> Instances:
        """The detections with the size of the annotated image, which those of a file lack."""
        return dataclasses.replace(self.detections, height=self.truth.height, width=self.truth.width)

    @property
    def labelled_classes(self) -> np.ndarray:
        """Verified classes: those of the image's labels and of its objects, int32 [L]."""
        return np.union1d(self.truth.labelled, self.truth.classes)


def only_labelled(image: EvaluatedImage) -> EvaluatedImage:
    """Drop detections of unverified classes; an image without labels keeps all."""
    if not image.truth.labelled.size:
        return image
    found = image.detections
    return dataclasses.replace(image, detections=found.take(np.isin(found.classes, image.labelled_classes)))


def to_px(boxes: np.ndarray, truth: Instances) -> np.ndarray:
    """Convert normalised boxes, float32 [N, 4], to pixels of their image; ymin, xmin, ymax, xmax."""
    size = np.array([truth.height, truth.width] * 2, np.float32)
    return np.asarray(boxes, np.float32).reshape(-1, 4) * size


def box_areas(boxes: np.ndarray) -> np.ndarray:
    """Areas [N] of boxes [N, 4], in squared units of the boxes."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def boxes_xywh(objects: Instances, image: Instances) -> np.ndarray:
    """Return boxes as x, y, width and height in pixels of their image, float64 [N, 4]."""
    boxes = to_px(objects.boxes, image)
    low, high = boxes[:, 1::-1], boxes[:, :1:-1]
    # What a COCO file says is not rounded, so that overlaps at a threshold are those of COCO's tools.
    rounded = np.concatenate([low, high - low], axis=1)
    return np.asarray(np.where(np.isnan(objects.xywh), rounded, objects.xywh))


def box_iou(detected: np.ndarray, true: np.ndarray, is_crowd: np.ndarray) -> np.ndarray:
    """Overlap of detections with true boxes, as in COCO, float64 in [0, 1]; arguments are broadcast.

    Args:
        detected: float64 [..., 4], corner and sides.
        true: likewise.
        is_crowd: bool [...]; for a crowd, the union is the detection alone: a detection may match any part.
    """
    low = np.maximum(detected[..., :2], true[..., :2])
    high = np.minimum(detected[..., :2] + detected[..., 2:], true[..., :2] + true[..., 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=-1)
    area = detected[..., 2] * detected[..., 3]
    union = np.where(is_crowd, area, area + true[..., 2] * true[..., 3] - shared)
    return np.divide(shared, union, out=np.zeros_like(shared), where=shared > 0)


def iou_px(detected_px: np.ndarray, true_px: np.ndarray, is_crowd: np.ndarray) -> np.ndarray:
    """Return `box_iou` of each of D boxes with each of G, [N, 4] as two corners; `is_crowd` is bool [G]."""
    corners = np.asarray(detected_px, np.float64), np.asarray(true_px, np.float64)
    detected, true = (np.concatenate([c[:, :2], c[:, 2:] - c[:, :2]], axis=1) for c in corners)
    return box_iou(detected[:, np.newaxis], true, is_crowd)


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


def match_image(image: EvaluatedImage, *, masks: bool = False) -> ImageMatch:
    """Match as COCO does: by descending score, each detection takes the best free object.

    The least overlap is `IOU_THRESHOLD`; with `masks`, which all must have, masks are compared, not boxes.
    """
    truth, found = image.truth, image.detections
    if masks:
        overlaps = mask_iou(found.masks, truth.masks, truth.is_crowd, truth.height, truth.width)
    else:
        detected, true = boxes_xywh(found, truth), boxes_xywh(truth, truth)
        overlaps = box_iou(detected[:, np.newaxis], true, truth.is_crowd)
    found_by = np.full(len(found.classes), NOT_MATCHED)
    near = (overlaps >= IOU_THRESHOLD) & (found.classes[:, None] == truth.classes[None, :])
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
