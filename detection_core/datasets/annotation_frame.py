"""Where in an image its annotations lie: in pixels, and upright or as stored where EXIF turns it."""

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
from detection_core.errors import ConfigError

SHOWN, STORED = FRAMES = get_args(ExifAnnotations)


class Frame(NamedTuple):
    """The frame of an image file.

    Attributes:
        width: columns as stored; 0 where they are not known.
        height: rows as stored.
        orientation: 1 to 8, of EXIF.
    """

    width: int
    height: int
    orientation: int = UPRIGHT

    @property
    def upright(self) -> tuple[int, int]:
        """Columns and rows when the picture has been turned."""
        return upright_size(self.width, self.height, self.orientation)


def check_exif_annotations(value: str) -> str:
    """Return a value of `data.exif_annotations`, checked.

    Raises:
        ConfigError: for another word.
    """
    if value not in FRAMES:
        raise ConfigError(f"expected one of {list(FRAMES)}, found {value!r}", where="exif_annotations")
    return value


def find_annotation_frame(record: AnnotatedImage, frame: Frame, unsaid: str) -> str:
    """Return which frame an image's annotations are in: `upright` or `stored`.

    Some annotation tools show the picture turned, some do not. The annotated size shows which, unless turning
    does not change the size.

    Args:
        record: with the size as annotated, 0 for none.
        frame: of the file.
        unsaid: the frame if the size is ambiguous: a quarter turn of a square picture, half a turn, a
            mirrored picture, or no size.

    Raises:
        Rejected: when the size is neither of the two.
    """
    stored = (frame.width, frame.height)
    if frame.orientation == UPRIGHT and (record.width, record.height) == stored:
        return unsaid  # both are the same
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
    """Return an image's objects in pixels.

    Args:
        record: with its objects in pixels already, or in fractions.
        width: columns of the picture that was annotated.
        height: rows of it.
    """
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
    """Return polygons in pixels; pixel masks have their own size."""
    if not isinstance(mask, Polygons):
        return mask
    return Polygons([(np.reshape(ring, (-1, 2)) * (width, height)).ravel() for ring in mask.rings])


def turn_objects(objects: list[AnnotatedObject], frame: Frame) -> list[AnnotatedObject]:
    """Return the objects of a stored picture with boxes and keypoints where they lie in the upright one."""
    return [_turn_object(item, frame) for item in objects]


def _turn_object(item: AnnotatedObject, frame: Frame) -> AnnotatedObject:
    xmin, ymin, xmax, ymax = item.box
    (x0, y0), (x1, y1) = (turn_point(x, y, *frame) for x, y in ((xmin, ymin), (xmax, ymax)))
    # Swap only what turning has swapped: an inverted box stays inverted and is rejected later.
    first, last = turn_point(0, 0, *frame), turn_point(frame.width, frame.height, *frame)
    flip_x, flip_y = first[0] > last[0], first[1] > last[1]
    box = (x1 if flip_x else x0, y1 if flip_y else y0, x0 if flip_x else x1, y0 if flip_y else y1)
    keypoints = item.keypoints and [(*turn_point(x, y, *frame), seen) for x, y, seen in item.keypoints]
    return item._replace(box=box, keypoints=keypoints)
