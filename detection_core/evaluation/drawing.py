"""Draw boxes, masks, keypoints and labels on images, readable on any background."""

import dataclasses
import functools
import importlib.util
import io
import os
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont, ImageOps

from detection_core.errors import one_line
from detection_core.ops.mask_runs import decode_mask

# Adjacent hues differ, so that neighbouring classes do. First Okabe and Ito's colours for all kinds of colour
# vision, then more of the same lightness. Further classes repeat them.
PALETTE = (
    (230, 159, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (213, 94, 0), (86, 180, 233),
    (240, 228, 66), (148, 82, 190), (120, 190, 60), (230, 70, 90), (0, 190, 190), (160, 120, 90),
)  # fmt: skip
_JPEG_QUALITY = 84
_RGB = 3
_DARK, _LIGHT = (20, 20, 20), (255, 255, 255)
BACKGROUND, LIGHT_TEXT = (32, 34, 38), (235, 235, 235)
"""Colours of a sheet of pictures."""
_LONGEST_TEXT = 60
_MASK_OPACITY = 0.45
_MASK_EDGE = 5
"""Size of the filter for a mask's outline: 5 gives 2 pixels."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledBox:
    """An object to draw.

    Attributes:
        box: ymin, xmin, ymax, xmax, normalised.
        label: class in [0, C); chooses the colour.
        text: label text; "" for none.
        dashed: draw the outline dashed, for objects that do not count.
        colour: RGB; None: the colour of the class.
        mask: COCO's compressed RLE of a mask of the whole picture; empty for none.
        mask_size: rows and columns of the mask.
        keypoints: (y, x) of each, normalised; NaN is not drawn.
        edges: pairs of keypoint indices to draw a line between.
    """

    box: tuple[float, float, float, float]
    label: int
    text: str = ""
    dashed: bool = False
    colour: tuple[int, int, int] | None = None
    mask: bytes = b""
    mask_size: tuple[int, int] = (0, 0)
    keypoints: tuple[tuple[float, float], ...] = ()
    edges: tuple[tuple[int, int], ...] = ()

    @property
    def drawn_colour(self) -> tuple[int, int, int]:
        """The drawing colour."""
        return self.colour or class_colour(self.label)


def class_colour(label: int) -> tuple[int, int, int]:
    """Return the colour of a class, RGB."""
    return PALETTE[label % len(PALETTE)]


def fit(image: np.ndarray, *, longest: int, smallest: int = 0) -> Image.Image:
    """Return the image as a picture, reduced to `longest` or enlarged to `smallest` pixels.

    Args:
        image: uint8 [H, W, C], RGB first.
        longest: most pixels of the longer side.
        smallest: fewest pixels of the longer side, so that text is readable.
    """
    side = max(image.shape[:2])
    scale = min(longest, max(smallest, side)) / side
    picture = Image.fromarray(np.ascontiguousarray(image[..., :_RGB]))
    if scale == 1.0:
        return picture
    size = tuple(max(1, round(s * scale)) for s in picture.size)
    return picture.resize(size, Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.BICUBIC)


def jpeg_bytes(picture: Image.Image, *, quality: int = _JPEG_QUALITY, optimize: bool = False) -> bytes:
    """Return a picture as a JPEG file; options as Pillow has them."""
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=quality, optimize=optimize)
    return stream.getvalue()


def draw_boxes(
    picture: Image.Image, boxes: Sequence[LabelledBox], *, thickness: int | None = None
) -> Image.Image:
    """Return an RGB picture with boxes, masks and keypoints; the first objects are on top.

    A box may extend beyond the picture; `thickness` is in pixels, None: by the picture's size.
    """
    drawn = _with_masks(picture, boxes)
    draw = ImageDraw.Draw(drawn)
    width, height = drawn.size
    size = max(11, round(min(width, height) / 28))
    near = [dataclasses.replace(item, box=_nearby(item.box)) for item in reversed(boxes)]
    for item in near:
        ymin, xmin, ymax, xmax = item.box
        corners = xmin * width, ymin * height, xmax * width, ymax * height
        _outline(draw, corners, item, thickness=max(2, size // 6) if thickness is None else thickness)
    for item in near:
        if item.text:
            _label(draw, drawn.size, item, size)
    # Last, because a label may cover the upper points of the same object or of another.
    for item in near:
        _keypoints(draw, drawn.size, item)
    return drawn


def _with_masks(picture: Image.Image, boxes: Sequence[LabelledBox]) -> Image.Image:
    """Return a copy with each mask drawn translucent, and its outline."""
    blended = picture.copy()
    for item in reversed(boxes):
        if item.mask:
            mask = decode_mask(item.mask, *item.mask_size)
            shape = Image.fromarray(mask.astype(np.uint8) * 255).resize(
                picture.size, Image.Resampling.NEAREST
            )
            outline = ImageChops.subtract(shape, shape.filter(ImageFilter.MinFilter(_MASK_EDGE)))
            inside = shape.point([round(value * _MASK_OPACITY) for value in range(256)])
            blended.paste(item.drawn_colour, mask=ImageChops.lighter(inside, outline))
    return blended


def _keypoints(draw: ImageDraw.ImageDraw, size: tuple[int, int], item: LabelledBox) -> None:
    """Draw the skeleton's lines in the object's colour, then each keypoint in its own colour."""
    if not item.keypoints:
        return
    width, height = size
    radius = max(2.0, min(size) / 90)
    points = {
        number: (x * width, y * height)
        for number, (y, x) in enumerate(np.clip(item.keypoints, -1.0, 2.0).tolist())
        if np.isfinite(x) and np.isfinite(y)
    }
    for start, end in item.edges:
        if start in points and end in points:
            draw.line((*points[start], *points[end]), fill=item.drawn_colour, width=max(2, round(radius)))
    for number, (x, y) in points.items():
        corners = (x - radius, y - radius, x + radius, y + radius)
        draw.ellipse(corners, fill=class_colour(number), outline=_LIGHT)


def _nearby(box: Sequence[float]) -> tuple[float, float, float, float]:
    """Clip a box to the picture and its surroundings.

    Pillow takes minutes for coordinates a billion pixels outside, as in an infinite box.
    """
    ymin, xmin, ymax, xmax = np.clip(np.nan_to_num(box), -1.0, 2.0).tolist()
    return ymin, xmin, ymax, xmax


def _outline(
    draw: ImageDraw.ImageDraw, box: tuple[float, float, float, float], item: LabelledBox, thickness: int
) -> None:
    left, top, right, bottom = box
    corners = (min(left, right), min(top, bottom), max(left, right), max(top, bottom))
    colour = item.drawn_colour
    if item.dashed:
        _dashes(draw, corners, colour, thickness)
        return
    # A dark border keeps the line visible on a background of the same colour.
    draw.rectangle(corners, outline=_DARK, width=thickness + 2)
    inner = (corners[0] + 1, corners[1] + 1, corners[2] - 1, corners[3] - 1)
    if inner[2] > inner[0] and inner[3] > inner[1]:
        draw.rectangle(inner, outline=colour, width=thickness)


def _dashes(
    draw: ImageDraw.ImageDraw,
    corners: tuple[float, float, float, float],
    colour: tuple[int, int, int],
    thickness: int,
) -> None:
    left, top, right, bottom = corners
    dash = 4 * thickness
    for start in np.arange(left, right, 2 * dash).tolist():
        for y in (top, bottom):
            draw.line((start, y, min(start + dash, right), y), fill=colour, width=thickness)
    for start in np.arange(top, bottom, 2 * dash).tolist():
        for x in (left, right):
            draw.line((x, start, x, min(start + dash, bottom)), fill=colour, width=thickness)


def _label(draw: ImageDraw.ImageDraw, size: tuple[int, int], item: LabelledBox, font_size: int) -> None:
    """Draw the text on a plate of the class's colour, above the box if there is room, else inside."""
    font = text_font(font_size)
    text = one_line(item.text, _LONGEST_TEXT)  # Pillow takes minutes for a long text.
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    margin = max(2, font_size // 5)
    plate = (right - left + 2 * margin, bottom - top + 2 * margin)
    x = min(max(0.0, item.box[1] * size[0]), max(0.0, size[0] - plate[0]))
    above = item.box[0] * size[1] - plate[1]
    y = above if above >= 0 else min(max(0.0, item.box[0] * size[1]), max(0.0, size[1] - plate[1]))
    colour = item.drawn_colour
    draw.rectangle((x, y, x + plate[0], y + plate[1]), fill=colour)
    draw.text((x + margin - left, y + margin - top), text, fill=readable_on(colour), font=font)


def readable_on(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return near-black or white, whichever has more contrast with the colour."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in colour)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Luminance at which WCAG 2's contrast ratios with white and with near-black (luminance 0.007) are equal.
    return _DARK if luminance > 0.195 else _LIGHT


@functools.cache
def text_font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return a font for many scripts: DejaVu from Matplotlib's package, without importing it."""
    found = importlib.util.find_spec("matplotlib")
    if found is not None and found.submodule_search_locations:
        path = os.path.join(found.submodule_search_locations[0], "mpl-data", "fonts", "ttf", "DejaVuSans.ttf")
        if os.path.exists(path):
            return ImageFont.truetype(path, size)
    return ImageFont.load_default(size)


def side_by_side(pictures: Mapping[str, Image.Image], gap: int = 6) -> Image.Image:
    """Place pictures side by side, each under its title."""
    font = text_font(14)
    row = paste_rows(list(pictures.values()), len(pictures), gap)
    sheet = ImageOps.expand(row, (0, 24, 0, 0), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    x = 0
    for title, picture in pictures.items():
        draw.text((x + 6, 4), title, fill=LIGHT_TEXT, font=font)
        x += picture.width + gap
    return sheet


def paste_rows(pictures: Sequence[Image.Image], columns: int, gap: int) -> Image.Image:
    """Return a sheet with so many pictures in a row; without pictures, one of 1 x 1 pixel."""
    rows = [pictures[first : first + columns] for first in range(0, len(pictures), columns)]
    widths = [sum(p.width for p in row) + gap * (len(row) - 1) for row in rows]
    heights = [max(p.height for p in row) for row in rows]
    size = max(widths, default=1), sum(heights) + gap * max(0, len(rows) - 1) or 1
    sheet = Image.new("RGB", size, BACKGROUND)
    top = 0
    for row, height in zip(rows, heights, strict=True):
        left = 0
        for picture in row:
            sheet.paste(picture, (left, top))
            left += picture.width + gap
        top += height + gap
    return sheet
