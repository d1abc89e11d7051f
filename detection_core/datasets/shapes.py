"""Converts the shapes of annotation tools, painted masks included, to boxes and masks in pixels.

Annotations refer to the stored or to the upright picture: the annotated size shows which.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from detection_core.allowed_values import ExifAnnotations
from detection_core.bounded.limits import MAX_JSON_VALUES, MAX_VALUES
from detection_core.data.image_header import MAX_PIXELS
from detection_core.data.orientation import UPRIGHT, turn_point, upright_size
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Malformed,
    Polygons,
    Rejected,
    RunLengths,
    check_count,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


Point = tuple[float, float]

_CORNERS_OF_ELLIPSE = 64


def box_around(points: Iterable[Point]) -> tuple[float, float, float, float]:
    """Return (xmin, ymin, xmax, ymax) around at least one point."""
    x, y = zip(*points, strict=True)
    return min(x), min(y), max(x), max(y)


def polygon_object(name: str, ring: Sequence[Point], label: str) -> AnnotatedObject:
    """Return an object from its outline.

    Raises:
        Rejected: if it has fewer than three or too many points, or a coordinate is not finite.
    """
    check_count(len(ring), "points of an outline")
    numbers = list(itertools.chain(*ring))
    if len(ring) < 3 or not all(map(math.isfinite, numbers)):
        raise Malformed(f"{label}: expected a polygon of 3 points or more, found {ring!r:.120}")
    return AnnotatedObject(name, box_around(ring), label=label, mask=Polygons([numbers]))


def join_objects(one: AnnotatedObject, other: AnnotatedObject) -> AnnotatedObject:
    """Merge two parts of one object; the outlines of `one` are moved, not copied, to join many parts fast."""
    box = box_around([one.box[:2], one.box[2:], other.box[:2], other.box[2:]])
    if isinstance(one.mask, Polygons) and isinstance(other.mask, Polygons):
        cast(list[Any], one.mask.rings).extend(other.mask.rings)
    return one._replace(box=box, mask=one.mask or other.mask)


def keypoint_names(
    images: Iterable[tuple[AnnotatedImage, Sequence[Mapping[str, Point]]]],
) -> dict[str, list[str]]:
    """Return class name to the names of its drawn keypoints in alphabetical order.

    Each image comes with each object's drawn keypoints by name; an image without any may have an empty list.
    """
    found: dict[str, set[str]] = collections.defaultdict(set)
    for image, points in images:
        for item, drawn in zip(image.objects, points, strict=False):
            if drawn:
                found[item.name].update(drawn)
    return {name: sorted(points) for name, points in sorted(found.items())}


def fill_keypoints(
    image: AnnotatedImage, points: Sequence[Mapping[str, Point]], names: Mapping[str, Sequence[str]]
) -> AnnotatedImage:
    """Return an image whose objects have all keypoints of their class, at 0, 0 if they were not drawn.

    `points` are each object's drawn ones by name, `names` those of each class in order.

    Raises:
        Rejected: if they are too many.
    """
    filled = sum(len(names.get(item.name, ())) for item in image.objects)
    check_count(filled, "keypoints of an image", MAX_VALUES)
    objects = [
        item._replace(
            keypoints=[(*drawn[name], 2) if name in drawn else (0.0, 0.0, 0) for name in names[item.name]]
        )
        if item.name in names
        else item
        for item, drawn in zip(image.objects, points, strict=True)
    ]
    return image._replace(objects=objects)


def ellipse(center: Point, radii: Point, degrees: float = 0.0) -> list[Point]:
    """Return the outline of an ellipse, turned clockwise about its center."""
    steps = (2 * math.pi * step / _CORNERS_OF_ELLIPSE for step in range(_CORNERS_OF_ELLIPSE))
    outline = [(center[0] + radii[0] * math.cos(a), center[1] + radii[1] * math.sin(a)) for a in steps]
    return turn(outline, center, degrees)


def rectangle(x: float, y: float, width: float, height: float) -> list[Point]:
    """Return the corners of a rectangle, clockwise from (x, y)."""
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def turn(points: Iterable[Point], center: Point, degrees: float) -> list[Point]:
    """Turn points clockwise; the y axis points down."""
    if not degrees:
        return list(points)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [
        (
            center[0] + (x - center[0]) * cos - (y - center[1]) * sin,
            center[1] + (x - center[0]) * sin + (y - center[1]) * cos,
        )
        for x, y in points
    ]


_BLOCK_PIXELS = 1 << 22
_MOST_DRAWN, _PIXELS_OF_A_RUN = 2 * MAX_PIXELS, 128


def place_mask(patch: npt.NDArray[np.bool_], left: int, top: int, width: int, height: int) -> RunLengths:
    """Place a mask's patch, [h, w], with its first pixel at (left, top) of the image, cut off at its edges.

    Raises:
        Rejected: if the image is empty or too large for a mask.
    """
    import numpy as np

    if not 0 < width * height <= MAX_PIXELS or min(width, height) < 1:
        raise Malformed(f"expected a mask of an image, found one of {width}x{height} pixels")
    y, x = max(top, 0), max(left, 0)
    inside = patch[y - top : max(height - top, 0), x - left : max(width - left, 0)]
    edges = list(itertools.chain.from_iterable(_edges(inside, y, x, height)))
    # Merge a run at the bottom of a column with one at the top of the next column.
    places, times = np.unique(np.asarray(edges, np.int64), return_counts=True)
    counts = np.diff([0, *places[times == 1]], append=width * height).tolist()
    return RunLengths(height, width, counts if counts[-1] or len(counts) == 1 else counts[:-1])


def mask_object(
    name: str, patch: npt.NDArray[np.bool_], corner: tuple[int, int], size: tuple[int, int], label: str
) -> AnnotatedObject:
    """Return an object with a mask's patch as in `place_mask`, at a `corner` of an image of this size."""
    (left, top), (height, width) = corner, patch.shape
    box = (float(left), float(top), float(left + width), float(top + height))
    return AnnotatedObject(name, box, label=label, mask=place_mask(patch, left, top, *size))


def _edges(patch: npt.NDArray[np.bool_], top: int, left: int, height: int) -> Iterator[list[int]]:
    """Yield begin and end of the runs down the image's columns, unordered, some columns at a time."""
    import numpy as np

    found = 0
    columns = max(1, _BLOCK_PIXELS // max(1, patch.shape[0]))
    for first in range(0, patch.shape[1] if patch.size else 0, columns):
        block = np.pad(patch[:, first : first + columns], ((1, 1), (0, 0)))
        row, column = np.nonzero(block[1:] != block[:-1])
        found += row.size
        if found > MAX_JSON_VALUES:
            detail = f"expected a mask of at most {MAX_JSON_VALUES:,} edges, found more"
            raise Malformed(detail)
        yield ((column + left + first) * height + row + top).tolist()


def add_mask(drawn: int, item: AnnotatedObject, pixels: int = 0) -> int:
    """Return the cost of an image's masks, in painted pixels, with that of one more object.

    `drawn` is the cost of the objects before it. A run length costs as much as some pixels. `pixels` were
    painted for the object; 0 means those of its box.

    Raises:
        Rejected: if painting them would take more than a few seconds.
    """
    if not isinstance(item.mask, RunLengths):
        return drawn
    xmin, ymin, xmax, ymax = item.box
    drawn += pixels or int((xmax - xmin) * (ymax - ymin))
    drawn += _PIXELS_OF_A_RUN * len(item.mask.counts)
    if drawn > _MOST_DRAWN:
        found = f"{item.label}: expected masks of at most {_MOST_DRAWN:,} pixels in an image, found more"
        raise Malformed(found)
    return drawn


def row_mask(counts: Sequence[int], width: int, height: int) -> npt.NDArray[np.bool_]:
    """Return a mask from CVAT's runs along its rows, zeros first; Rejected if they miss the mask's size."""
    import numpy as np

    if min(width, height, *counts, 0) < 0 or sum(counts) != width * height or sum(counts) > MAX_PIXELS:
        raise Malformed(f"expected runs of {width}x{height} pixels, found {sum(counts)} in all")
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(height, width)


def brush_mask(data: Sequence[int], width: int, height: int) -> npt.NDArray[np.bool_]:
    """Decode Label Studio's run lengths: the bytes of an RGBA picture as a stream of bits.

    The format is that of `thi.ng/rle-pack`. Its header has the number of values (32 bits) and the bits per
    value minus one (5). Four bit lengths minus one (4 bits each) follow. A run begins with a bit, set if its
    values are all equal. Two bits choose one of the four lengths for the number of values minus one, which
    follows. Then comes the one value, or every value.

    Raises:
        Rejected: if the stream is no picture of this size.
    """
    import numpy as np

    total = width * height * 4
    if not 0 < total <= 4 * MAX_PIXELS:
        raise Malformed(f"expected a mask of an image, found one of {width}x{height} pixels")
    try:
        bits = _Bits(bytes(data))
        count, word = bits.take(32), bits.take(5) + 1
        lengths = [bits.take(4) + 1 for _ in range(4)]
        if count != total:
            raise ValueError(f"{count} values")
        opaque: npt.NDArray[np.bool_] = np.zeros(total // 4, np.bool_)
        at = 0
        while at < total:
            alike = bits.take(1)
            run = bits.take(lengths[bits.take(2)]) + 1
            if alike:  # every fourth value is a pixel's opacity
                opaque[at // 4 : (at + run) // 4] = bits.take(word) > 0
            else:
                for place in range(at, min(at + run, total)):
                    value = bits.take(word)
                    if place % 4 == 3:
                        opaque[place // 4] = value > 0
            at += run
    except (ValueError, TypeError) as e:
        raise Malformed(f"expected run lengths of a mask of {width}x{height} pixels, found {e}") from e
    return opaque.reshape(height, width)


class _Bits:
    """Reads numbers from a stream of bits."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, length: int) -> int:
        begin, end = self._at, self._at + length
        if end > 8 * len(self._data):
            raise ValueError("a stream that ends too early")
        self._at = end
        part = int.from_bytes(self._data[begin // 8 : (end + 7) // 8], "big")
        return (part >> (-end % 8)) & ((1 << length) - 1)


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
    mask = item.mask
    if isinstance(mask, Polygons):
        import numpy as np

        mask = Polygons([(np.reshape(ring, (-1, 2)) * (width, height)).ravel() for ring in mask.rings])
    return item._replace(
        box=(xmin * width, ymin * height, xmax * width, ymax * height),
        mask=mask,
        keypoints=item.keypoints and [(x * width, y * height, seen) for x, y, seen in item.keypoints],
    )


def turn_object(item: AnnotatedObject, frame: Frame) -> AnnotatedObject:
    """Return an object of a stored picture with box and keypoints moved to the upright picture."""
    xmin, ymin, xmax, ymax = item.box
    (x0, y0), (x1, y1) = (turn_point(x, y, *frame) for x, y in ((xmin, ymin), (xmax, ymax)))
    # Swap only the edges that turning has swapped: an inverted box stays inverted and is rejected later.
    first, last = turn_point(0, 0, *frame), turn_point(frame.width, frame.height, *frame)
    flip_x, flip_y = first[0] > last[0], first[1] > last[1]
    box = (x1 if flip_x else x0, y1 if flip_y else y0, x0 if flip_x else x1, y0 if flip_y else y1)
    keypoints = item.keypoints and [(*turn_point(x, y, *frame), seen) for x, y, seen in item.keypoints]
    return item._replace(box=box, keypoints=keypoints)
