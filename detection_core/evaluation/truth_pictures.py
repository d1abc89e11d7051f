"""Ground truth on an image: boxes with names, masks and keypoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from detection_core.evaluation.drawing import LabelledBox, class_colour, draw_boxes, fit
from detection_core.structures import GroundTruth

_OPACITY = 0.45


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawnTruth:
    """The objects of an image on the host, without padding.

    Attributes:
        boxes: float [G, 4], normalised.
        classes: int [G], in [0, C).
        is_crowd: bool [G].
        masks: [G, h, w], 0 where the object is not; h = w = 0 without masks.
        keypoints: float [G, K, 2], (y, x) normalised, not a number where there is none; K is 0 without.
    """

    boxes: np.ndarray
    classes: np.ndarray
    is_crowd: np.ndarray
    masks: np.ndarray
    keypoints: np.ndarray

    @classmethod
    def of(cls, truth: GroundTruth) -> DrawnTruth:
        """Return what can be drawn of unbatched ground truth."""
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
        longest: longer side of the picture, pixels.
    """
    picture = fit(image, longest=longest, smallest=longest)
    if truth.masks.shape[1] and truth.masks.shape[2]:
        picture = _with_masks(picture, truth)
    boxes = [
        LabelledBox(
            box=(float(box[0]), float(box[1]), float(box[2]), float(box[3])),
            label=int(label),
            text=names[label] if 0 <= label < len(names) else str(label),
            dashed=bool(crowd),
        )
        for box, label, crowd in zip(truth.boxes, truth.classes, truth.is_crowd, strict=True)
    ]
    picture = draw_boxes(picture, boxes)
    _draw_keypoints(picture, truth)
    return picture


def _with_masks(picture: Image.Image, truth: DrawnTruth) -> Image.Image:
    blended = picture
    for mask, label in zip(truth.masks, truth.classes, strict=True):
        shape = Image.fromarray(np.where(mask > 0, round(255 * _OPACITY), 0).astype(np.uint8))
        shape = shape.resize(picture.size, Image.Resampling.NEAREST)
        colour = Image.new("RGB", picture.size, class_colour(int(label)))
        blended = Image.composite(colour, blended, shape)
    return blended


def _draw_keypoints(picture: Image.Image, truth: DrawnTruth) -> None:
    draw = ImageDraw.Draw(picture)
    radius = max(2.0, min(picture.size) / 90)
    for points in truth.keypoints:
        for number, (y, x) in enumerate(points):
            if np.isfinite(y) and np.isfinite(x):
                at = (float(x) * picture.width, float(y) * picture.height)
                edges = (at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius)
                draw.ellipse(edges, fill=class_colour(number), outline=(255, 255, 255))
