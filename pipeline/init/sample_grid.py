"""A sheet of sample pictures with their boxes, to look at before anything is trained."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from detection_core.data.image_header import MAX_FILE_BYTES, MAX_PIXELS
from detection_core.datasets.annotated_images import AnnotatedImage
from detection_core.errors import shorten
from detection_core.evaluation.drawing import LabelledBox, class_colour, draw_boxes, fit, text_font
from detection_core.storage import files

COLUMNS, CELL, CAPTION, GAP = 4, 360, 22, 6
_BACKGROUND, _TEXT = (32, 34, 38), (235, 235, 235)


def draw_sample_grid(images: Sequence[AnnotatedImage], classes: Sequence[str]) -> bytes | None:
    """Return a PNG with the pictures and their boxes; None where no picture can be read.

    Args:
        images: to show, in this order; those that cannot be read are left out.
        classes: whose colours follow their order.
    """
    cells = [cell for image in images if (cell := _cell(image, {n: i for i, n in enumerate(classes)}))]
    if not cells:
        return None
    columns = min(COLUMNS, len(cells))
    heights = [max(cell.height for cell in cells[at : at + columns]) for at in range(0, len(cells), columns)]
    width, height = columns * (CELL + GAP) + GAP, sum(heights) + GAP * (len(heights) + 1)
    sheet = Image.new("RGB", (width, height + CAPTION), _BACKGROUND)
    y = GAP
    for row, row_height in enumerate(heights):
        for column, cell in enumerate(cells[row * columns : (row + 1) * columns]):
            sheet.paste(cell, (GAP + column * (CELL + GAP), y))
        y += row_height + GAP
    _legend(sheet, y, classes)
    file = io.BytesIO()
    sheet.save(file, "PNG")
    return file.getvalue()


def _legend(sheet: Image.Image, y: int, classes: Sequence[str]) -> None:
    """Write the classes in their colours, as many as have room."""
    draw, font, x = ImageDraw.Draw(sheet), text_font(13), float(2 * GAP)
    for label, name in enumerate(classes):
        text = shorten(name, 30)[1:-1]
        if x + draw.textlength(text, font=font) > sheet.width:
            draw.text((x, y), "...", fill=_TEXT, font=font)
            return
        draw.text((x, y), text, fill=class_colour(label), font=font)
        x += draw.textlength(text, font=font) + 3 * GAP


def _cell(image: AnnotatedImage, labels: dict[str, int]) -> Image.Image | None:
    """Return a picture with its boxes and its name; None where it cannot be read."""
    picture = _read(image)
    if picture is None:
        return None
    rows, columns = _extent(image, picture)
    boxes = [
        LabelledBox(
            box=(
                item.box[1] / rows,
                item.box[0] / columns,
                item.box[3] / rows,
                item.box[2] / columns,
            ),
            label=labels.get(item.name, 0),
            text=item.name if len(image.objects) <= _NAMED else "",
            dashed=bool(item.crowd or item.difficult),
        )
        for item in image.objects
    ]
    shown = draw_boxes(fit(np.asarray(picture), longest=CELL), boxes)
    cell = Image.new("RGB", (CELL, shown.height + CAPTION), _BACKGROUND)
    cell.paste(shown, ((CELL - shown.width) // 2, 0))
    caption = f"{shorten(image.filename, 36)[1:-1]}, {len(image.objects):,}"
    ImageDraw.Draw(cell).text((4, shown.height + 3), caption, fill=_TEXT, font=text_font(13))
    return cell


def _extent(image: AnnotatedImage, picture: Image.Image) -> tuple[float, float]:
    """Return what the boxes' places are fractions of, down and across."""
    if image.in_fractions:
        return 1, 1
    return (image.height, image.width) if image.height and image.width else picture.size[::-1]


_NAMED = 12  # objects of a picture up to which each has its name beside it


def _read(image: AnnotatedImage) -> Image.Image | None:
    """Return the picture as it is annotated; None where it cannot be read."""
    try:
        with Image.open(io.BytesIO(files.read_regular(image.path, MAX_FILE_BYTES))) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                return None
            opened.draft("RGB", (2 * CELL, 2 * CELL))
            turned = ImageOps.exif_transpose(opened)
            as_annotated = opened if _is_like(opened, image) and not _is_like(turned, image) else turned
            return as_annotated.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def _is_like(picture: Image.Image, image: AnnotatedImage) -> bool:
    """Tell whether a picture lies as its annotation says: upright or on its side."""
    if not image.width or not image.height:
        return True
    return (picture.width > picture.height) == (image.width > image.height)
