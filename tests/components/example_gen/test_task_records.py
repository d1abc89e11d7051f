import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.example_gen.task_records import format_record, parse_json, read_record
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    ImageLabel,
    MaskFile,
    Polygons,
    RunLengths,
)

PLAIN = AnnotatedObject("cat", (1.0, 2.5, 3.0, 4.0), 7.5, 0, None, None, None, "annotation 1")
IMAGE = AnnotatedImage("1", "ä \udcff.jpg", "/x/ä \udcff.jpg", 40, 30, [PLAIN])


def _again(image):
    return read_record(parse_json(format_record(image)))


def test_boxes_alone_are_what_they_always_were():
    assert parse_json(format_record(IMAGE)) == [
        "1", "ä \udcff.jpg", "/x/ä \udcff.jpg", 40, 30,
        [["cat", [1.0, 2.5, 3.0, 4.0], 7.5, 0, None, None, None, "annotation 1"]],
    ]  # fmt: skip
    assert _again(IMAGE) == IMAGE


def test_every_field_comes_back():
    rest = {"keypoints": [(1.5, 2.0, 2)], "group_of": 1, "occluded": 0, "depiction": 1, "confidence": 0.5}
    full = PLAIN._replace(**rest, weight=0.25, mask=RunLengths(30, 40, [1200]))
    packed = PLAIN._replace(mask=RunLengths(30, 40, "PQ"))
    image = IMAGE._replace(
        objects=[full, packed, PLAIN._replace(mask=MaskFile("/m.png")), PLAIN._replace(weight=2.0)],
        labels=[ImageLabel("dog", 0.0), ImageLabel("cat")],
    )
    assert _again(image) == image
    image = IMAGE._replace(in_fractions=True, example="part:1+2:/a.record")
    assert _again(image) == image and _again(image._replace(labels=[ImageLabel("dog")])).in_fractions


def test_polygons_come_back_to_the_last_bit():
    rings = [[0.1, 1 / 3, 1e-300, 5.0, 6.0, 7.0], [1, 2, 3, 4, 5, 6]]
    [found] = _again(IMAGE._replace(objects=[PLAIN._replace(mask=Polygons(rings))])).objects
    for one, other in zip(found.mask.rings, rings, strict=True):
        np.testing.assert_array_equal(one, other)
    [found] = _again(IMAGE._replace(objects=[PLAIN._replace(box=(float("nan"), 0.0, 1.0, 1.0))])).objects
    assert math.isnan(found.box[0])


NUMBERS = st.floats(allow_nan=False) | st.floats(-1e4, 1e4)
TEXTS = st.text(st.characters(), max_size=8)


@given(
    st.lists(st.tuples(TEXTS, st.tuples(*[NUMBERS] * 4), NUMBERS), max_size=4), TEXTS, st.integers(0, 1 << 70)
)
def test_any_numbers_and_texts_come_back(objects, name, width):
    # Infinity, lone surrogates and numbers of more than 64 bits are not in orjson's JSON.
    items = [PLAIN._replace(name=label, box=box, area=area) for label, box, area in objects]
    image = IMAGE._replace(objects=items, filename=name, width=width)
    found = _again(image)
    assert found._replace(width=0) == image._replace(width=0)
    assert found.width == pytest.approx(width)
