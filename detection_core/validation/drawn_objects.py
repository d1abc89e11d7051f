"""Draws examples with their objects, for samples and findings."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from detection_core.data.pixels import read_pixels
from detection_core.errors import DataError
from detection_core.evaluation.drawing import LabelledBox, draw_objects
from detection_core.validation.labelled_images import LabelledImage

Box = tuple[float, float, float, float]
_NOT_MEANT = (150, 150, 150)


def pixels_of(image: LabelledImage) -> np.ndarray | None:
    """Return the pixels of an example, uint8 [H, W, 3]; None if decoding fails."""
    try:
        return read_pixels(io.BytesIO(image.encoded))
    except DataError:
        return None


def box_of(values: np.ndarray) -> Box:
    """Return a row of boxes in the form of `LabelledBox`."""
    ymin, xmin, ymax, xmax = (float(value) for value in values)
    return ymin, xmin, ymax, xmax


@dataclasses.dataclass(frozen=True, kw_only=True)
class Emphasis:
    """The objects of a picture to highlight.

    Attributes:
        label: names the objects of this class only; None: all objects.
        box: colours the object with this box only (ymin, xmin, ymax, xmax); the others are grey. None: all.
    """

    label: int | None = None
    box: Sequence[float] | None = None

    def names(self, label: int, box: np.ndarray) -> bool:
        """Return whether an object is drawn with its name."""
        return (self.label is None or label == self.label) and self.means(box)

    def means(self, box: np.ndarray) -> bool:
        """Return whether a box is drawn in colour."""
        return self.box is None or bool(np.allclose(box, self.box, atol=1e-4))


EVERYTHING = Emphasis()


def draw_image(
    pixels: np.ndarray,
    image: LabelledImage,
    classes: Sequence[str],
    *,
    sides: tuple[int, int],
    emphasis: Emphasis = EVERYTHING,
) -> Image.Image:
    """Draw objects on uint8 [H, W, 3] pixels, named ones on top; crowd regions are dashed.

    `sides` are the minimum and maximum of the picture's longer side in pixels.
    """
    boxes = [
        LabelledBox(
            box=box_of(box),
            label=max(int(label), 0),
            text=classes[label] if label >= 0 and emphasis.names(int(label), box) else "",
            dashed=bool(crowd),
            colour=None if emphasis.means(box) else _NOT_MEANT,
        )
        for box, label, crowd in zip(image.boxes, image.classes, image.is_crowd, strict=True)
    ]
    boxes.sort(key=lambda box: (not box.text, box.colour is not None))
    return draw_objects(pixels, boxes, sides=sides)
