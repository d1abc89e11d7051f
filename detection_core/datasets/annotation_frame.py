"""Finds whether annotations refer to the stored or the upright picture; converts objects to pixels."""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np

from detection_core.allowed_values import ExifAnnotations
from detection_core.data.orientation import UPRIGHT, turn_point, upright_size
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Mask,
    Polygons,
    Rejected,
)

SHOWN, STORED = FRAMES = get_args(ExifAnnotations)


class Frame(NamedTuple):
    """The frame of an image file.

    Attributes:
        width: columns as stored; 0 if unknown.
        height: rows as stored; 0 if unknown.
        orientation: of EXIF, 1 to 8.
    """

    width: int
    height: int
    orientation: int = UPRIGHT

    @property
    def upright(self) -> tuple[int, int]:
        """Columns and rows of the upright picture."""
        return upright_size(self.width, self.height, self.orientation)


def find_annotation_frame(record: AnnotatedImage, frame: Frame, unsaid: str) -> str:
    """Return the frame of an image's annotations: `upright` or `stored`.

    Some annotation tools turn the picture, some do not. The annotated size shows which, if turning changes
    it. An ambiguous size gives `unsaid`: a square turned by 90 degrees, half a turn, a mirrored picture,
    or no size (0).

    Raises:
        Rejected: if the annotated size fits neither frame.
    """
    stored = (frame.width, frame.height)
    if frame.orientation == UPRIGHT and (record.width, record.height) == stored:
        return unsaid  # both frames are the same
    sizes = {SHOWN: frame.upright, STORED: stored}
    fitting = [
        name for name, size in sizes.items() if record.width in (0, size[0]) and record.height in (0, size[1])
    ]
    if not fitting:
        also = f" ({stored[0]}x{stored[1]} as stored)" if frame.upright != stored else ""
        raise Rejected(
            "size_mismatch",
            f"expected {record.width}x{record.height} pixels as annotated, "
            f"found {frame.upright[0]}x{frame.upright[1]}{also}",
        )
    return fitting[0] if len(fitting) == 1 else unsaid


def place_objects(record: AnnotatedImage, width: int, height: int) -> list[AnnotatedObject]:
    """Return an image's objects, given in pixels or fractions, in pixels of the annotated picture."""
    if not record.in_fractions:
        return record.objects
    return [_place_object(item, width, height) for item in record.objects]


def _place_object(item: AnnotatedObject, width: int, height: int) -> AnnotatedObject:
    xmin, ymin, xmax, ymax = item.box
    return item._replace(
        box=(xmin * width, ymin * height, xmax * width, ymax * height),
        mask=_place_mask(item.mask, width, height),
        keypoints=item.keypoints and [(x * width, y * height, seen) for x, y, seen in item.keypoints],
    )


def _place_mask(mask: Mask | None, width: int, height: int) -> Mask | None:
    """Return polygons in pixels and other masks unchanged."""
    if not isinstance(mask, Polygons):
        return mask
    return Polygons([(np.reshape(ring, (-1, 2)) * (width, height)).ravel() for ring in mask.rings])


def turn_objects(objects: list[AnnotatedObject], frame: Frame) -> list[AnnotatedObject]:
    """Return the objects of a stored picture with boxes and keypoints moved to the upright picture."""
    return [_turn_object(item, frame) for item in objects]


def _turn_object(item: AnnotatedObject, frame: Frame) -> AnnotatedObject:
    xmin, ymin, xmax, ymax = item.box
    (x0, y0), (x1, y1) = (turn_point(x, y, *frame) for x, y in ((xmin, ymin), (xmax, ymax)))
    # Swap only the edges that turning has swapped: an inverted box stays inverted and is rejected later.
    first, last = turn_point(0, 0, *frame), turn_point(frame.width, frame.height, *frame)
    flip_x, flip_y = first[0] > last[0], first[1] > last[1]
    box = (x1 if flip_x else x0, y1 if flip_y else y0, x0 if flip_x else x1, y0 if flip_y else y1)
    keypoints = item.keypoints and [(*turn_point(x, y, *frame), seen) for x, y, seen in item.keypoints]
    return item._replace(box=box, keypoints=keypoints)
