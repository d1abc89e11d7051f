"""A sheet of sample images with their boxes, masks and keypoints, to inspect before training."""

import io
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from detection_core.data.image_header import MAX_FILE_BYTES, MAX_PIXELS
from detection_core.data.orientation import noted_orientation, turn_upright, upright_size
from detection_core.datasets.annotated_images import AnnotatedImage, Mask, MaskFile, Polygons, RunLengths
from detection_core.datasets.masks import has_area, pack_mask, read_mask
from detection_core.errors import one_line
from detection_core.evaluation.drawing import (
    BACKGROUND,
    LIGHT_TEXT,
    LabelledBox,
    class_colour,
    draw_boxes,
    fit,
    paste_rows,
    text_font,
)
from detection_core.ops.mask_runs import encode_masks
from detection_core.storage import files

COLUMNS, CELL, CAPTION, GAP = 4, 360, 22, 6


def draw_sample_grid(images: Sequence[AnnotatedImage], classes: Sequence[str]) -> bytes | None:
    """Return a PNG with the images and their objects; None if no image can be read.

    Images keep their order; unreadable ones are left out. The order of classes sets their colours.
    """
    labels = {name: label for label, name in enumerate(classes)}
    pictures = _Pictures()
    cells = [_cell(image, *read, labels) for image in images if (read := pictures.read(image))]
    if not cells:
        return None
    sheet = ImageOps.expand(paste_rows(cells, COLUMNS, GAP), (GAP, GAP, GAP, GAP + CAPTION), BACKGROUND)
    _legend(sheet, sheet.height - CAPTION, classes)
    file = io.BytesIO()
    sheet.save(file, "PNG")
    return file.getvalue()


def _legend(sheet: Image.Image, y: int, classes: Sequence[str]) -> None:
    """Write the classes in their colours, as many as fit."""
    draw, font, x = ImageDraw.Draw(sheet), text_font(13), float(2 * GAP)
    for label, name in enumerate(classes):
        text = one_line(name, 30)
        if x + draw.textlength(text, font=font) > sheet.width:
            draw.text((x, y), "...", fill=LIGHT_TEXT, font=font)
            return
        draw.text((x, y), text, fill=class_colour(label), font=font)
        x += draw.textlength(text, font=font) + 3 * GAP


def _cell(
    image: AnnotatedImage, picture: Image.Image, size: tuple[int, int], labels: dict[str, int]
) -> Image.Image:
    """Return a picture with its objects and name; `size` is its original rows and columns."""
    rows, columns = (1, 1) if image.in_fractions else image.annotated_size or size
    picture = fit(np.asarray(picture), longest=CELL)
    boxes = [
        LabelledBox(
            box=(item.box[1] / rows, item.box[0] / columns, item.box[3] / rows, item.box[2] / columns),
            label=labels.get(item.name, 0),
            text=item.name if len(image.objects) <= _NAMED else "",
            dashed=bool(item.crowd or item.difficult),
            keypoints=tuple(
                (y / rows, x / columns) if known else (math.nan, math.nan)
                for x, y, known in item.keypoints or ()
            ),
            **_mask_fields(item.mask if number < _MASKS else None, (rows, columns), picture.size),
        )
        for number, item in enumerate(image.objects[:_DRAWN])
        if all(map(math.isfinite, item.box))
    ]
    shown = draw_boxes(picture, boxes)
    cell = Image.new("RGB", (CELL, shown.height + CAPTION), BACKGROUND)
    cell.paste(shown, ((CELL - shown.width) // 2, 0))
    caption = f"{one_line(image.filename, 36)}, {len(image.objects):,}"
    ImageDraw.Draw(cell).text((4, shown.height + 3), caption, fill=LIGHT_TEXT, font=text_font(13))
    return cell


def _mask_fields(mask: Mask | None, units: tuple[float, float], shown: tuple[int, int]) -> dict[str, Any]:
    """Return the fields of a mask to draw; none for one that cannot be used, which ingestion reports.

    `units` are rows and columns of the image as annotated, `shown` columns and rows of the picture.
    """
    (rows, columns), (width, height) = units, shown
    if mask is None or not has_area(mask):
        return {}
    try:
        if isinstance(mask, RunLengths):
            height, width = mask.height, mask.width
            if height * width > MAX_PIXELS:
                return {}
        elif isinstance(mask, Polygons):
            scale = np.array([width / columns, height / rows])
            mask = Polygons([(np.reshape(ring, (-1, 2)) * scale).ravel().tolist() for ring in mask.rings])
        if isinstance(mask, MaskFile):
            packed = bytes(encode_masks([read_mask(mask.path, height, width)])[0])
        else:
            packed = pack_mask(mask, height, width)
    except (ValueError, TypeError, OverflowError):
        return {}
    return {"mask": packed, "mask_size": (height, width)}


_NAMED = 12  # maximum objects of an image to write names beside
_MASKS = 50  # maximum masks drawn per image, as each is as large as the image
_DECODED_PIXELS = 1 << 28  # of all images: two of the largest, or all of a camera's
_DRAWN = 500  # maximum boxes drawn per image: more would hide it


class _Pictures:
    """Read images up to a total number of pixels."""

    def __init__(self) -> None:
        self._left = _DECODED_PIXELS

    def read(self, image: AnnotatedImage) -> tuple[Image.Image, tuple[int, int]] | None:
        """Return the image as annotated, scaled down, and its original size; None if unreadable."""
        try:
            content = io.BytesIO(files.read_regular(image.path, MAX_FILE_BYTES))
            # Pillow warns of many pixels; their number is checked here.
            with warnings.catch_warnings(action="ignore"), Image.open(content) as opened:
                size = opened.height, opened.width
                opened.draft("RGB", (2 * CELL, 2 * CELL))
                if opened.width * opened.height > min(self._left, MAX_PIXELS):
                    return None
                self._left -= opened.width * opened.height
                opened.thumbnail((2 * CELL, 2 * CELL))  # in place, because one may take 400 MB
                turned = turn_upright(opened)
                if image.annotated_size and _is_like(opened, image) and not _is_like(turned, image):
                    return opened.convert("RGB"), size
                return turned.convert("RGB"), upright_size(*size, noted_orientation(opened))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None


def _is_like(picture: Image.Image, image: AnnotatedImage) -> bool:
    """Tell whether an image has the orientation of its annotation: portrait or landscape."""
    if not image.width or not image.height:
        return True
    return (picture.width > picture.height) == (image.width > image.height)
