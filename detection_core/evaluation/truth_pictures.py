"""Draw ground truth on an image: boxes with names, masks and keypoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from PIL import Image

from detection_core.evaluation.drawing import LabelledBox, draw_boxes, fit
from detection_core.ops.mask_runs import encode_masks
from detection_core.structures import GroundTruth


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawnTruth:
    """The objects of an image on the host, without padding.

    Attributes:
        boxes: float [G, 4], normalised.
        classes: int [G], in [0, C).
        is_crowd: bool [G].
        masks: [G, h, w], 0 outside the object; h = w = 0 without masks.
        keypoints: float [G, K, 2], (y, x) normalised, NaN if missing; K = 0 without keypoints.
    """

    boxes: np.ndarray
    classes: np.ndarray
    is_crowd: np.ndarray
    masks: np.ndarray
    keypoints: np.ndarray

    @classmethod
    def of(cls, truth: GroundTruth) -> DrawnTruth:
        """Convert unbatched ground truth."""
        valid = np.asarray(truth.valid, bool)
        return cls(
            boxes=np.asarray(truth.boxes)[valid],
            classes=np.asarray(truth.classes)[valid],
            is_crowd=np.asarray(truth.is_crowd)[valid],
            masks=np.asarray(truth.masks)[valid],
            keypoints=np.asarray(truth.keypoints)[valid],
        )


def draw_truth(image: np.ndarray, truth: DrawnTruth, names: Sequence[str], *, longest: int) -> Image.Image:
    """Draw the objects of an image.

    Args:
        image: uint8 [H, W, 3].
        truth: its objects.
        names: of the classes.
        longest: most pixels of the picture's longer side.
    """
    rows = zip(truth.boxes.tolist(), truth.classes.tolist(), truth.is_crowd.tolist(), strict=True)
    size = (truth.masks.shape[1], truth.masks.shape[2])
    masks = encode_masks(truth.masks) if all(size) else [b""] * len(truth.masks)
    objects = [
        LabelledBox(
            box=tuple(box),
            label=label,
            text=names[label] if 0 <= label < len(names) else str(label),
            dashed=crowd,
            mask=mask,
            mask_size=size,
            keypoints=tuple((y, x) for y, x in keypoints),
        )
        for (box, label, crowd), mask, keypoints in zip(rows, masks, truth.keypoints.tolist(), strict=True)
    ]
    return draw_boxes(fit(image, longest=longest, smallest=longest), objects)
