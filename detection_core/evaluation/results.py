"""Ground truth and detections of each evaluated image; pixels are not kept."""

from __future__ import annotations

import dataclasses

import numpy as np

from detection_core.structures import Instances


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluatedImage:
    """An image's ground truth and detections.

    Attributes:
        truth: the ground truth.
        detections: the detections.
    """

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
