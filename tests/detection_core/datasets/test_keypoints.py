import math

from detection_core.data.encode import KeypointColumns
from detection_core.datasets import keypoints as module
from detection_core.datasets.annotated_images import AnnotatedObject, Rejected
from detection_core.datasets.keypoints import check_keypoint_names, make_layout, merge_keypoint_names
from detection_core.errors import DataError
from tests.support.cases import cases, refused

HEIGHT, WIDTH = 30, 40
NAMES = {"cat": ["nose", "tail"], "bird": ["nose", "wing"]}
GOOD = (1.0, 1.0, 2)


def _object(name, keypoints):
    return AnnotatedObject(name, (0, 0, 1, 1), 0, 0, None, None, None, "annotation 7", None, keypoints)


def _columns(objects, names):
    return module.keypoint_columns(objects, make_layout(names), HEIGHT, WIDTH)


def test_classes_have_columns_of_their_own_or_share_one_layout():
    objects = [_object("cat", [(10.0, 15.0, 2), (0.0, 0.0, 0)]), _object("cat", None)]
    # create_coco_tf_record.py: zeros, visibility 0 and a number of 0 for an object without keypoints.
    places = {"x": [0.25, 0.0, 0.0, 0.0], "y": [0.5, 0.0, 0.0, 0.0], "visibility": [2, 0, 0, 0]}
    expected = KeypointColumns(**places, texts=("nose", "tail", "nose", "tail"), numbers=[1, 0])
    assert _columns(objects, {"cat": NAMES["cat"]}) == expected
    assert make_layout(NAMES).names == ("nose", "tail", "wing")
    found = _columns([_object("bird", [(4, 3, 1), (8, 6, 2)])], NAMES)
    assert found.x == [0.1, 0.0, 0.2] and found.y == [0.1, 0.0, 0.2] and found.visibility == [1, 0, 2]
    assert _columns([_object("cat", None)], NAMES) is None and _columns([], NAMES) is None


@cases(
    [], [GOOD], [GOOD] * 3, [GOOD, (math.nan, 1.0, 2)], [GOOD, (1.0, math.inf, 0)], [GOOD, (1.0, 1e30, 2)],
    [GOOD, (1.0, 1.0, 3)], [(1.0, 1.0, -1), GOOD],
)  # fmt: skip
def test_keypoints_that_a_class_does_not_have_are_refused(*, keypoints):
    error = refused(Rejected, "annotation 7: expected", lambda: _columns([_object("cat", keypoints)], NAMES))
    assert error.reason == "malformed_keypoints"
    refused(Rejected, "0 keypoints of 'fish'", lambda: _columns([_object("fish", [GOOD])], NAMES))


def test_names_of_all_splits_are_one_list_of_bounded_length():
    ids = {"bird": 1, "cat": 2, "dog": 3}
    assert list(merge_keypoint_names([NAMES, {"cat": ("nose", "tail")}, {}], ids)) == ["bird", "cat"]
    assert merge_keypoint_names([NAMES], {"cat": 1}) == {"cat": ["nose", "tail"]}
    other = [NAMES, {"cat": ["tail", "nose"]}]
    refused(DataError, "one list of keypoints for the class 'cat'", merge_keypoint_names, other, ids)
    for names, message in (
        ({"cat": [""] * 1_001}, r"^data: expected at most 1000 keypoints of a class, found 1,001"),
        (dict.fromkeys(map(str, range(300)), [""] * 1_000), "at most 200,000 keypoints of all .* 300,000"),
    ):
        refused(DataError, message, check_keypoint_names, names, "data")
    check_keypoint_names(NAMES, "data")
    many = {str(number): [f"{number} {point}" for point in range(300)] for number in range(100)}
    objects = [_object(str(number), [GOOD] * 300) for number in range(10)]
    refused(Rejected, "at most 200,000 keypoints of an image, found 300,000", _columns, objects, many)
