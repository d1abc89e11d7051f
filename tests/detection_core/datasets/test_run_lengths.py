import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pycocotools import mask as coco_mask

from detection_core.datasets.annotated_images import Rejected, RunLengths
from detection_core.datasets.run_lengths import add_mask, brush_mask, place_mask, row_mask
from detection_core.datasets.shapes import make_object
from tests.support.brushes import brush_bytes
from tests.support.cases import refused


@settings(deadline=None)
@given(
    arrays.arrays(np.bool_, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6)),
    st.integers(-8, 8), st.integers(-8, 8), st.integers(1, 9), st.integers(1, 9),
)  # fmt: skip
def test_a_placed_mask_is_that_of_pycocotools(patch, left, top, width, height):
    expected = np.zeros((height, width), np.uint8)
    for (row, column), on in np.ndenumerate(patch):
        if on and 0 <= row + top < height and 0 <= column + left < width:
            expected[row + top, column + left] = 1
    found = place_mask(patch, left, top, width, height)
    size = {"size": [found.height, found.width], "counts": list(found.counts)}
    assert (coco_mask.decode(coco_mask.frPyObjects(size, height, width)) == expected).all()


def test_rows_run_from_left_to_right_and_a_mask_of_no_image_is_refused(monkeypatch):
    for size in ((0, 5), (5, 0), (-2, -3), (1 << 20, 1 << 20)):
        refused(Rejected, "", place_mask, np.ones((1, 1), bool), 0, 0, *size)
        refused(Rejected, "", brush_mask, [0] * 20, *size)
    assert row_mask([1, 2, 3], 3, 2).tolist() == [[False, True, True], [False, False, False]]
    for counts in ([1, 2], [7], [-1, 7], [], [1 << 60]):
        refused(Rejected, "expected runs of 3x2 pixels", row_mask, counts, 3, 2)
    plain = make_object("cat", (10, 20, 12, 23), "")
    item = plain._replace(mask=RunLengths(30, 40, [1200]))
    assert add_mask(7, plain) == 7 and add_mask(1, item) == add_mask(1, item, pixels=2 * 3) > 7
    monkeypatch.setattr("detection_core.datasets.run_lengths.MAX_PIXELS", 6)
    assert place_mask(np.ones((1, 1), bool), 0, 0, 3, 2).counts == [0, 1, 5]
    refused(Rejected, "found one of 7x1 pixels", place_mask, np.ones((1, 1), bool), 0, 0, 7, 1)


@settings(deadline=None)
@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 4))), st.booleans())
def test_a_brush_s_bits_are_its_pixels(painted, alike):
    mask = brush_mask(brush_bytes(5, 4, painted, alike), 5, 4)
    assert {(int(row), int(column)) for row, column in np.argwhere(mask)} == painted


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bits_are_a_mask_or_refused(data):
    try:
        assert brush_mask(list(data), 3, 2).shape == (2, 3)
    except Rejected as e:
        assert e.reason == "malformed_annotation"
