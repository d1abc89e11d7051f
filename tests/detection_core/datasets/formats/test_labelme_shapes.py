import base64
import io

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask

from detection_core.datasets.annotated_images import Polygons, Rejected
from detection_core.datasets.formats.labelme_shapes import read_objects
from tests.support.cases import cases, refused
from tests.support.dataset_files import png_that_claims


def _shape(kind, *points, label="cat", **more):
    return {"label": label, "shape_type": kind, "points": [list(point) for point in points], **more}


def _png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return _text(buffer.getvalue())


def _text(data):
    return base64.b64encode(data).decode()


def _read(*shapes):
    return [item for item, _ in read_objects(shapes, 40, 30)]


BIG, LINE, NOSE = 2**31 - 1, [(1, 2), (3, 4)], _shape("point", (1, 2), label="n", group_id=1)


@cases(
    ("rectangle", [(9, 8), (1, 2)]), ("rectangle", [(1, 2), (9, 2), (9, 8), (1, 8)]),
    ("polygon", [(1, 2), (9, 4), (5, 8)]), (None, [(1, 2), (9, 4), (5, 8)]), ("circle", [(5, 5), (8, 9)]),
)  # fmt: skip
def test_every_shape_has_the_box_around_it(*, kind, points):
    (item,) = _read(_shape(kind, *points))
    box = (0, 0, 10, 10) if kind == "circle" else (1, 2, 9, 8)
    assert item.name == "cat" and item.box == pytest.approx(box)


@cases(
    [_shape("linestrip", *LINE)], [_shape("point", (1, 2))], [_shape("point", (1, 2), group_id=1)],
    [_shape("circle", (1, 2))], [_shape("polygon", *LINE)], [_shape(["polygon"], *LINE, (5, 6))],
    [_shape("mask", *LINE)], [_shape("mask", *LINE, mask="no base64")],
    [_shape("mask", *LINE, mask=_text(b"no picture"))], [_shape("rectangle", *LINE, group_id=1), NOSE, NOSE],
    *[[_shape("mask", *LINE, mask=_text(png_that_claims(side, side)))] for side in (10, 12_000, 50_000, BIG)],
)  # fmt: skip
def test_what_has_no_area_or_owner_or_asks_for_too_much_is_refused(*, shapes):
    png = "expected a PNG file as base64 text" if "mask" in shapes[0] else ""
    error = refused(Rejected, rf"shape \d+: .*{png}", _read, *shapes)
    assert error.reason == "malformed_annotation"


def test_masks_lie_where_corners_say_and_groups_are_objects_however_many(monkeypatch):
    pixels = np.array([[1, 0, 1], [1, 1, 1]], np.uint8) * 255
    (item,) = _read(_shape("mask", (4, 5), (6, 6), mask=_png(pixels)))
    assert item.box == (4, 5, 7, 7)
    counts = coco_mask.frPyObjects({"size": [30, 40], "counts": list(item.mask.counts)}, 30, 40)
    whole = coco_mask.decode(counts)
    assert whole.sum() == 5 and (whole[5:7, 4:7] == pixels // 255).all()
    one = _shape("polygon", (1, 1), (3, 1), (3, 3), group_id=7)
    other = _shape("polygon", (8, 8), (9, 8), (9, 9), group_id=7)
    (item,) = _read(one, other)
    assert item.box == (1, 1, 9, 9) and item.mask == Polygons([[1, 1, 3, 1, 3, 3], [8, 8, 9, 8, 9, 9]])
    assert len(_read(one, {**other, "label": "dog"})) == len(_read(one, {**other, "group_id": None})) == 2
    group = [_shape("polygon", (1, 2), (9, 4), (5, 8), group_id=1) for _ in range(20_000)]
    (item,) = _read(*group)
    assert len(item.mask.rings) == 20_000 and item.box == (1, 2, 9, 8)
    boxes = [_shape("rectangle", (1, 2), (9, 8), group_id=i) for i in range(5_000)]
    points = [_shape("point", (3, 4), label="nose", group_id=i) for i in range(5_000)]
    assert [named for _, named in read_objects([*boxes, *points], 40, 30)] == [{"nose": (3, 4)}] * 5_000
    monkeypatch.setattr("detection_core.datasets.run_lengths._MOST_DRAWN", 6_000)
    shape = _shape("mask", (0, 0), (9, 9), mask=_png(np.ones((10, 10), bool)))
    assert len(_read(*[shape] * 2)) == 2
    refused(Rejected, r"shape \d+: expected masks of at most 6,000 pixels", _read, *[shape] * 20)
