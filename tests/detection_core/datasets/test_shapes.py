"""Shapes of objects: masks, run lengths, keypoints, and the frame that they are given in."""

import io
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image
from pycocotools import mask as coco_mask

from detection_core.data.label_map import Keypoint, LabelMap, LabelMapItem
from detection_core.datasets import annotated_images, shapes
from detection_core.datasets import classes as module
from detection_core.datasets.annotated_images import AnnotatedObject, MaskFile, Polygons, Rejected, RunLengths
from detection_core.datasets.classes import (
    check_keypoint_names,
    fill_label_map,
    make_layout,
    merge_keypoint_names,
)
from detection_core.datasets.masks import encode_masks, has_area
from detection_core.datasets.shapes import (
    Frame,
    add_mask,
    box_around,
    brush_mask,
    ellipse,
    join_objects,
    place_mask,
    polygon_object,
    rectangle,
    row_mask,
    turn,
    turn_object,
)
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import brush_bytes


def test_polygons_ellipses_and_rectangles_have_boxes_and_turn_and_other_rings_are_refused():
    rings = [(1, 2), (3, 2), (3, 5)], [(7, 0), (9, 1), (8, 1)]
    item = join_objects(*(polygon_object("cat", ring, "shape 1") for ring in rings))
    assert item.box == (1, 0, 9, 5) and item.mask == Polygons([[1, 2, 3, 2, 3, 5], [7, 0, 9, 1, 8, 1]])
    assert item == AnnotatedObject("cat", item.box, label="shape 1", mask=item.mask)
    assert box_around(ellipse((10, 20), (4, 2))) == pytest.approx((6, 18, 14, 22))
    assert box_around(ellipse((10, 20), (4, 2), 90)) == pytest.approx((8, 16, 12, 24))
    corners = rectangle(0, 0, 4, 2)
    assert corners == [(0, 0), (4, 0), (4, 2), (0, 2)] == turn(corners, (9, 9), 0)
    (x, y), *_ = turn([(4, 0)], (0, 0), 90)
    assert (x, y) == pytest.approx((0, 4))
    for ring in ([], [(1, 2), (3, 4)], [(1, 2), (3, math.nan), (5, 6)]):
        refused(Rejected, "shape 1: expected a polygon of 3 points", polygon_object, "cat", ring, "shape 1")


HEIGHT, WIDTH = 30, 40
SIZE = HEIGHT * WIDTH
COORDINATES = st.floats(-20, 60, width=32).map(lambda v: round(v, 2))
RINGS = st.lists(st.tuples(COORDINATES, COORDINATES), min_size=3, max_size=9)


def _object(mask=None, label="annotation 7", *, name="cat", box=(0, 0, 1, 1), keypoints=None):
    return AnnotatedObject(name, box, 0, 0, None, None, None, label, mask, keypoints)


def _pixels(*masks, height=HEIGHT, width=WIDTH):
    pngs = encode_masks([_object(mask) for mask in masks], height, width)
    return [np.asarray(Image.open(io.BytesIO(data))) for data in pngs]


@settings(max_examples=200, deadline=None)
@example([[0, 0, 40, 0, 40, 30, 0, 30]])
@example([[1.5, 1.5, 5.5, 1.5, 5.5, 7.5], [3, 3, 30, 3, 30, 29, 3, 29]])
@given(st.lists(RINGS, min_size=1, max_size=3))
def test_polygons_are_filled_as_the_object_detection_api_fills_them(rings):
    flat = [[float(v) for v in np.ravel(ring)] for ring in rings]
    # create_coco_tf_record.py: every polygon filled alone, then the greatest of each pixel.
    expected = np.amax(coco_mask.decode(coco_mask.frPyObjects(flat, HEIGHT, WIDTH)), axis=2)
    first, _, again = _pixels(Polygons(flat), Polygons([[2.0, 2.0, 9.0, 2.0, 9.0, 9.0]]), Polygons(flat))
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(again, expected)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12))
def test_run_lengths_mean_the_same_packed_and_not(seed, coarse):
    mask = np.random.default_rng(seed).integers(0, 2, (HEIGHT, WIDTH), dtype=np.uint8)
    mask[: 2 * coarse] = seed % 2
    packed = coco_mask.encode(np.asfortranarray(mask))["counts"].decode()
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[0], mask.T.ravel(), [2]]))), prepend=0).tolist()
    for counts in (packed, ([0, *runs] if mask[0, 0] and runs[0] else runs)):
        [found] = _pixels(RunLengths(HEIGHT, WIDTH, counts))
        np.testing.assert_array_equal(found, mask)


def test_runs_and_polygons_without_an_extent_cover_nothing():
    for counts in ([5, 3, 0, 2, SIZE - 10], [5, 3, 0, SIZE - 8], [SIZE, 0], [0, 0, 5, 5, SIZE - 10, 0, 0]):
        values = np.repeat(np.arange(len(counts)) % 2, counts)
        [found] = _pixels(RunLengths(HEIGHT, WIDTH, counts))
        np.testing.assert_array_equal(found, values.reshape(WIDTH, HEIGHT).T)
    line, full = [1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 9.0, 1.0, 9.0, 9.0]
    assert not any(has_area(Polygons(rings)) for rings in ([], [[]], [line]))
    with_line, alone, none = _pixels(Polygons([line, full]), Polygons([full]), None)
    np.testing.assert_array_equal(with_line, alone)
    assert alone.any() and not none.any()


def _runs(counts):
    return RunLengths(HEIGHT, WIDTH, counts)


# Odd, not finite or far away; of too few, too many or no numbers, of sums that wrap round; cut, endless or
# of other characters.
@cases(
    *(Polygons([[1, 1, 5, 1, 5, *rest]]) for rest in ([5, 1], [math.nan], [math.inf], [1e12])),
    *map(_runs, ([5, 5], [5, SIZE], [-5, SIZE + 5], [2**70, 5], [2**63 - 1, 2**63 - 1, SIZE + 2])),
    *map(_runs, ([0.5, SIZE - 0.5], ["5", "7"], "", "0 1~", "0ä", "0oooo", "o" * 18 + "0", "55", "O5")),
    RunLengths(WIDTH, HEIGHT, [SIZE]),
)
def test_a_mask_that_cannot_be_is_refused_by_the_name_of_its_object(*, mask):
    objects = [_object(_runs([SIZE])), _object(mask, "annotation 9")]
    error = refused(Rejected, "annotation 9: expected", encode_masks, objects, HEIGHT, WIDTH)
    assert error.reason == "malformed_mask"


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(min_codepoint=40, max_codepoint=115), max_size=30))
def test_any_text_in_the_place_of_run_lengths_is_a_mask_or_refused(text):
    try:
        [found] = _pixels(RunLengths(2, 3, text), height=2, width=3)
    except Rejected as e:
        assert e.reason == "malformed_mask"
    else:
        assert found.shape == (2, 3)


def test_mask_files_are_stretched_or_refused(tmp_path):
    small = np.zeros((15, 20), np.uint8)
    small[3:7, 5:10] = 255
    for mode in ("L", "1", "P", "RGB", "RGBA"):
        Image.fromarray(small).convert(mode).save(tmp_path / f"{mode}.png")
        [found] = _pixels(MaskFile(str(tmp_path / f"{mode}.png")))
        np.testing.assert_array_equal(found, np.kron(small > 0, np.ones((2, 2))))
    (tmp_path / "text.png").write_text("not an image")
    for path in (tmp_path / "text.png", tmp_path / "nothing.png", tmp_path):
        refused(Rejected, "annotation 7: expected a mask", _pixels, MaskFile(str(path)))


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
    plain = AnnotatedObject("cat", (10, 20, 12, 23))
    item = plain._replace(mask=RunLengths(30, 40, [1200]))
    assert add_mask(7, plain) == 7 and add_mask(1, item) == add_mask(1, item, pixels=2 * 3) > 7
    monkeypatch.setattr("detection_core.datasets.shapes.MAX_PIXELS", 6)
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


NAMES = {"cat": ["nose", "tail"], "bird": ["nose", "wing"]}
GOOD = (1.0, 1.0, 2)


def _columns(objects, names):
    found = module.keypoint_columns(objects, make_layout(names), HEIGHT, WIDTH)
    return {key.removeprefix("image/object/keypoint/"): values for key, values in found.items()}


def test_classes_have_columns_of_their_own_or_share_one_layout():
    objects = [_object(keypoints=[(10.0, 15.0, 2), (0.0, 0.0, 0)]), _object()]
    # create_coco_tf_record.py: zeros, visibility 0 and a number of 0 for an object without keypoints.
    places = {"x": [0.25, 0.0, 0.0, 0.0], "y": [0.5, 0.0, 0.0, 0.0], "visibility": [2, 0, 0, 0]}
    expected = {**places, "text": ("nose", "tail", "nose", "tail"), "num": [1, 0]}
    assert _columns(objects, {"cat": NAMES["cat"]}) == expected
    assert make_layout(NAMES).names == ("nose", "tail", "wing")
    found = _columns([_object(name="bird", keypoints=[(4, 3, 1), (8, 6, 2)])], NAMES)
    assert found["x"] == found["y"] == [0.1, 0.0, 0.2] and found["visibility"] == [1, 0, 2]
    assert _columns([_object()], NAMES) == {} == _columns([], NAMES)


@cases(
    [], [GOOD], [GOOD] * 3, [GOOD, (math.nan, 1.0, 2)], [GOOD, (1.0, math.inf, 0)], [GOOD, (1.0, 1e30, 2)],
    [GOOD, (1.0, 1.0, 3)], [(1.0, 1.0, -1), GOOD],
)  # fmt: skip
def test_keypoints_that_a_class_does_not_have_are_refused(*, keypoints):
    error = refused(Rejected, "annotation 7: expected", _columns, [_object(keypoints=keypoints)], NAMES)
    assert error.reason == "malformed_keypoints"
    refused(Rejected, "0 keypoints of 'fish'", _columns, [_object(name="fish", keypoints=[GOOD])], NAMES)


def test_names_of_all_splits_are_one_list_of_bounded_length():
    ids = {"bird": 1, "cat": 2, "dog": 3}
    assert list(merge_keypoint_names([NAMES, {"cat": ("nose", "tail")}, {}], ids)) == ["bird", "cat"]
    assert merge_keypoint_names([NAMES], {"cat": 1}) == {"cat": ["nose", "tail"]}
    own = LabelMapItem(id=2, name="/m/x", display_name="bird", keypoints=(Keypoint(id=7, label="beak"),))
    dog = LabelMapItem(id=3, name="dog", frequency="RARE")
    items = LabelMapItem(id=1, name="/m/y", display_name="cat"), own, dog
    named = fill_label_map(LabelMap(items=items), NAMES, {"dog": "COMMON", "bird": "FREQUENT"}).items
    assert [item.frequency for item in named] == ["UNSPECIFIED", "FREQUENT", "RARE"]
    assert [[(k.id, k.label) for k in item.keypoints] for item in named] == [
        [(0, "nose"), (1, "tail")], [(7, "beak")], [],
    ]  # fmt: skip
    other = [NAMES, {"cat": ["tail", "nose"]}]
    refused(DataError, "one list of keypoints for the class 'cat'", merge_keypoint_names, other, ids)
    message = r"^data: expected at most 1000 keypoints of a class, found 1,001"
    refused(DataError, message, check_keypoint_names, {"cat": [""] * 1_001}, "data")
    names = dict.fromkeys(map(str, range(300)), [""] * 1_000)
    refused(DataError, "at most 200,000 keypoints of all .* 300,000", check_keypoint_names, names, "data")
    check_keypoint_names(NAMES, "data")
    many = {str(number): [f"{number} {point}" for point in range(300)] for number in range(100)}
    objects = [_object(name=str(number), keypoints=[GOOD] * 300) for number in range(10)]
    refused(Rejected, "at most 200,000 keypoints of an image, found 300,000", _columns, objects, many)


def frame_of(size, frame, unsaid):
    image = annotated_images.AnnotatedImage("1", "a.jpg", "a.jpg", *size, [])
    return shapes.find_annotation_frame(image, Frame(*frame), unsaid)


@cases(
    ((40, 30), 6, "upright", "stored"), ((30, 40), 6, "stored", "upright"), ((0, 0), 6, "stored", "stored"),
    ((0, 0), 6, "upright", "upright"), ((40, 0), 6, "upright", "stored"), ((40, 30), 3, "upright", "upright"),
    ((40, 30), 3, "stored", "stored"), ((40, 30), 1, "upright", "upright"),
)  # fmt: skip
def test_the_annotated_size_decides_where_turning_changes_it(*, size, orientation, unsaid, expected):
    assert frame_of(size, (40, 30, orientation), unsaid) == expected


def test_a_square_leaves_it_to_the_setting_and_another_size_is_refused_with_both():
    assert frame_of((40, 40), (40, 40, 6), "stored") == "stored"
    turned = turn_object(_object(box=(9.0, 2.0, 4.0, 8.0)), Frame(40, 30, 6))
    assert turned.box[3] < turned.box[1] and turned.box[0] < turned.box[2], "inverted as before"
    for orientation, sizes in ((6, r"found 30x40 \(40x30 as stored\)"), (1, "found 40x30$")):
        message = f"expected 50x30 pixels as annotated, {sizes}"
        error = refused(Rejected, message, frame_of, (50, 30), (40, 30, orientation), "upright")
        assert error.reason == "size_mismatch"


@given(st.integers(1, 8), st.lists(st.floats(0, 30, allow_subnormal=False), min_size=4, max_size=4))
def test_a_turned_box_has_the_same_sides_and_lies_inside(orientation, numbers):
    xs, ys = sorted(numbers[:2]), sorted(numbers[2:])
    frame = Frame(40, 30, orientation)
    item = _object(box=(xs[0], ys[0], xs[1], ys[1]), keypoints=[(xs[0], ys[0], 2)])
    turned = turn_object(item, frame)
    xmin, ymin, xmax, ymax = turned.box
    width, height = frame.upright
    assert 0 <= xmin <= xmax <= width and 0 <= ymin <= ymax <= height
    sides = sorted([xmax - xmin, ymax - ymin])
    assert sides == pytest.approx(sorted([xs[1] - xs[0], ys[1] - ys[0]]), abs=1e-6)
    x, y, seen = turned.keypoints[0]
    assert x in (xmin, xmax) and y in (ymin, ymax) and seen == 2
