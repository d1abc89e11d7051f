"""Cuts an example into overlapping tiles, so that small objects keep their pixels in training."""

import dataclasses
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.data.encode import TILE, EncodedImage, serialise, set_values
from detection_core.data.image_header import ImageFault
from detection_core.data.orientation import jpeg_options
from detection_core.data.pixels import open_picture, read_pixels
from detection_core.datasets.annotated_images import AnnotatedImage, AnnotatedObject, Box, Keypoint, Rejected
from detection_core.datasets.classes import KeypointLayout
from detection_core.datasets.encoding import CheckedExample, encoded_example
from detection_core.datasets.masks import decode_mask_file, encode_mask_pngs
from detection_core.ops.tile_options import TileOptions
from detection_core.ops.tiles import tile_windows

_MASK, _MASK_WEIGHT = "image/object/mask", "image/object/mask/weight"
_IGNORED: dict[str, Any] = {"crowd": 1, "weight": 0.0}
_LEAST_PIXELS = 1.0
"""Sides of an ignored part; a narrower one is left out."""

Window = tuple[int, int, int, int]
"""A tile in pixels of its image: top, left, bottom and right, half open."""


def tile_examples(
    example: CheckedExample,
    record: AnnotatedImage,
    label_ids: Mapping[str, int],
    keypoints: KeypointLayout | None,
    options: TileOptions,
) -> Iterator[CheckedExample]:
    """Yield the tiles of an example, then the example itself; an image no larger than a tile has no tiles.

    A tile has the image's format, and as id the image's id, `@`, and its left and top edge in pixels, which
    are also its feature `image/tile`. A JPEG keeps its quantization tables. Of a record that held the image,
    tiles keep only known features.

    Args:
        example: of the whole image.
        record: it was made from.
        label_ids: class name to id of the label map.
        keypoints: of the data set; None if it has none.
        options: how images are divided.

    Raises:
        Rejected: if the image cannot be decoded.
    """
    windows = tile_windows(example.image.height, example.image.width, options)
    if len(windows) > 1:
        try:
            pixels, saving = _decode(example.image)
        except ImageFault as e:
            raise Rejected(e.reason, e.message) from e
        for top, left, bottom, right in windows.tolist():
            window = (top, left, bottom, right)
            image = _encode(pixels[top:bottom, left:right], example.image, saving, f"@{left},{top}")
            tile = _cut(example, image, window, options.min_visibility)
            # Of the record's labels, those of absent classes and of the tile's own hold for the tile.
            names = {item.name for item in tile.objects}
            labels = [label for label in record.labels if not label.confidence or label.name in names]
            made = encoded_example(tile, record._replace(labels=labels), label_ids, keypoints)
            set_values(made, TILE, [left, top])
            yield dataclasses.replace(tile, data=serialise(made))
    yield example


def _decode(image: EncodedImage) -> tuple[np.ndarray, dict[str, Any]]:
    """Return an image's pixels, uint8 [H, W, 3], and options to save its tiles with."""
    pixels = read_pixels(io.BytesIO(image.data))
    if image.format != "jpeg":
        return pixels, {}
    with open_picture(io.BytesIO(image.data)) as picture:
        return pixels, jpeg_options(picture)


def _encode(pixels: np.ndarray, image: EncodedImage, saving: dict[str, Any], place: str) -> EncodedImage:
    from PIL import Image

    stored = io.BytesIO()
    Image.fromarray(pixels).save(stored, image.format.upper(), **saving)
    data = stored.getvalue()
    return dataclasses.replace(
        image,
        data=data,
        sha256=hashlib.sha256(data).hexdigest(),
        height=pixels.shape[0],
        width=pixels.shape[1],
        source_id=image.source_id + place,
    )


def _cut(
    example: CheckedExample, image: EncodedImage, window: Window, min_visibility: float
) -> CheckedExample:
    """Return a tile without its data; only the whole image counts as clipped, converted and decoded."""
    parts = cut_objects(example.objects, example.boxes, window, min_visibility)
    rows, objects = list(parts), list(parts.values())
    masks: dict[str, list[Any]] = {}
    if example.masks:
        objects, masks = _cut_masks(example.masks, rows, objects, window)
    return CheckedExample(
        data=b"",
        image=image,
        objects=objects,
        boxes=[item.box for item in objects],
        masks=masks,
        clipped=0,
        converted=False,
    )


def cut_objects(
    objects: Sequence[AnnotatedObject], boxes: Sequence[Box], window: Window, min_visibility: float
) -> dict[int, AnnotatedObject]:
    """Return the visible part of each object that a tile shows, by the object's number.

    An object of which less is visible is ignored: it is a crowd of weight 0, so that training learns neither
    the object nor background there.

    Args:
        objects: with keypoints in pixels of the image.
        boxes: of the objects, (xmin, ymin, xmax, ymax) in pixels of the image.
        window: the tile.
        min_visibility: fraction of a box from which the object is kept.

    Returns:
        Number in `objects` to the object in pixels of the tile.
    """
    top, left, bottom, right = window
    found = {}
    for number, (item, (xmin, ymin, xmax, ymax)) in enumerate(zip(objects, boxes, strict=True)):
        low, high = (max(xmin, left), max(ymin, top)), (min(xmax, right), min(ymax, bottom))
        width, height = high[0] - low[0], high[1] - low[1]
        if width <= 0 or height <= 0:
            continue
        share = width * height / ((xmax - xmin) * (ymax - ymin))
        if share < min_visibility and min(width, height) < _LEAST_PIXELS:
            continue
        part = item._replace(
            box=(low[0] - left, low[1] - top, high[0] - left, high[1] - top),
            area=item.area * share,
            truncated=item.truncated if share == 1 or item.truncated is None else 1,
            keypoints=item.keypoints and [_cut_keypoint(point, window) for point in item.keypoints],
        )
        found[number] = part if share >= min_visibility or item.crowd else part._replace(**_IGNORED)
    return found


def _cut_keypoint(point: Keypoint, window: Window) -> Keypoint:
    """Return a keypoint in pixels of a tile; one outside becomes unlabelled, as in COCO."""
    top, left, bottom, right = window
    x, y, seen = point
    return (x - left, y - top, seen) if left <= x <= right and top <= y <= bottom else (0.0, 0.0, 0)


def _cut_masks(
    masks: Mapping[str, Sequence[Any]],
    rows: Sequence[int],
    objects: Sequence[AnnotatedObject],
    window: Window,
) -> tuple[list[AnnotatedObject], dict[str, list[Any]]]:
    """Return a tile's objects and mask features; an object whose mask has no pixel in the tile is ignored."""
    top, left, bottom, right = window
    weights = masks.get(_MASK_WEIGHT) or [1.0] * len(masks[_MASK])
    cut = [decode_mask_file(masks[_MASK][row])[top:bottom, left:right] for row in rows]
    drawn = [bool(weights[row]) and bool(mask.any()) for row, mask in zip(rows, cut, strict=True)]
    kept = [
        item if has or not weights[row] else item._replace(**_IGNORED)
        for item, has, row in zip(objects, drawn, rows, strict=True)
    ]
    if not any(drawn):
        return kept, {}
    edges = [np.flatnonzero(np.diff(mask.T.ravel(), prepend=False, append=False)) for mask in cut]
    columns: dict[str, list[Any]] = {_MASK: list(encode_mask_pngs(edges, bottom - top, right - left))}
    if not all(drawn):
        columns[_MASK_WEIGHT] = [float(has) for has in drawn]
    return kept, columns
