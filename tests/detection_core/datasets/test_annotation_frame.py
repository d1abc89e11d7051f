import pytest
from hypothesis import given
from hypothesis import strategies as st

from detection_core.datasets import annotation_frame
from detection_core.datasets.annotated_images import AnnotatedImage, AnnotatedObject, Rejected
from detection_core.datasets.annotation_frame import Frame, check_exif_annotations, turn_objects
from detection_core.errors import ConfigError
from tests.support.cases import cases, refused


def frame_of(size, frame, unsaid):
    image = AnnotatedImage("1", "a.jpg", "a.jpg", *size, [])
    return annotation_frame.find_annotation_frame(image, Frame(*frame), unsaid)


@cases(
    ((40, 30), 6, "upright", "stored"), ((30, 40), 6, "stored", "upright"), ((0, 0), 6, "stored", "stored"),
    ((0, 0), 6, "upright", "upright"), ((40, 0), 6, "upright", "stored"), ((40, 30), 3, "upright", "upright"),
    ((40, 30), 3, "stored", "stored"), ((40, 30), 1, "upright", "upright"),
)  # fmt: skip
def test_the_annotated_size_decides_where_turning_changes_it(*, size, orientation, unsaid, expected):
    assert frame_of(size, (40, 30, orientation), unsaid) == expected


def test_a_square_leaves_it_to_the_setting_and_another_size_is_refused_with_both():
    assert frame_of((40, 40), (40, 40, 6), "stored") == "stored"
    refused(ConfigError, "expected one of", check_exif_annotations, "sideways")
    (turned,) = turn_objects([item((9.0, 2.0, 4.0, 8.0))], Frame(40, 30, 6))
    assert turned.box[3] < turned.box[1] and turned.box[0] < turned.box[2], "inverted as before"
    for orientation, sizes in ((6, r"found 30x40 \(40x30 as stored\)"), (1, "found 40x30$")):
        message = f"expected 50x30 pixels as annotated, {sizes}"
        error = refused(Rejected, message, frame_of, (50, 30), (40, 30, orientation), "upright")
        assert error.reason == "size_mismatch"


def item(box, keypoints=None):
    return AnnotatedObject("cat", box, 12.0, 0, None, None, None, "annotation 1", keypoints=keypoints)


@given(st.integers(1, 8), st.lists(st.floats(0, 30, allow_subnormal=False), min_size=4, max_size=4))
def test_a_turned_box_has_the_same_sides_and_lies_inside(orientation, numbers):
    xs, ys = sorted(numbers[:2]), sorted(numbers[2:])
    frame = Frame(40, 30, orientation)
    (turned,) = turn_objects([item((xs[0], ys[0], xs[1], ys[1]), [(xs[0], ys[0], 2)])], frame)
    xmin, ymin, xmax, ymax = turned.box
    width, height = frame.upright
    assert 0 <= xmin <= xmax <= width and 0 <= ymin <= ymax <= height
    sides = sorted([xmax - xmin, ymax - ymin])
    assert sides == pytest.approx(sorted([xs[1] - xs[0], ys[1] - ys[0]]), abs=1e-6)
    x, y, seen = turned.keypoints[0]
    assert x in (xmin, xmax) and y in (ymin, ymax) and seen == 2
