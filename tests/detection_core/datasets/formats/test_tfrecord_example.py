import itertools
import math

from detection_core.data.encode import bytes_feature, float_feature, int64_feature, serialise_features
from detection_core.datasets.annotated_images import ImageLabel, Rejected
from detection_core.datasets.formats.tfrecord_example import RecordedExample
from detection_core.storage.file_parts import FilePart
from tests.support.cases import cases, refused
from tests.support.dataset_files import picture

OBJECT = "image/object"
BOXES = {"xmin": [0.25, 0.0], "ymin": [0.5, 0.0], "xmax": [0.5, 1.0], "ymax": [1.0, 1.0]}
FEATURES = {
    "image/encoded": bytes_feature([picture()]),
    **{f"{OBJECT}/bbox/{side}": float_feature(values) for side, values in BOXES.items()},
    f"{OBJECT}/class/label": int64_feature([3, 4]),
}
NAMES = {3: "cat", 4: "dog"}


def _example(names=NAMES, **changed):
    features = {**FEATURES, **{f"image/{key.replace('__', '/')}": value for key, value in changed.items()}}
    data = serialise_features({key: value for key, value in features.items() if value})
    return RecordedExample(data, FilePart(100, len(data), "/a.record"), names)


def test_the_least_that_a_record_can_have_is_an_image_and_ids_and_numbers_tell_the_rest():
    example = _example()
    image = example.image("a.record-0")
    assert (image.source_id, image.filename, image.width, image.height) == ("a.record-0", "a.record-0", 0, 0)
    assert image.in_fractions and image.example.startswith("part:100+")
    boxes = [("cat", (0.25, 0.5, 0.5, 1.0)), ("dog", (0.0, 0.0, 1.0, 1.0))]
    assert [(item.name, item.box) for item in image.objects] == boxes
    assert example.classes() == {"cat": 3, "dog": 4} and example.keypoint_names() == {}
    example = _example(class__label=int64_feature([4]), class__confidence=float_feature([0.0]))
    assert example.image("0").labels == [ImageLabel("dog", 0.0)]
    x = float_feature([0.5, float("nan"), 0.25, 0.5])
    example = _example(object__keypoint__x=x, object__keypoint__y=float_feature([0.5] * 4))
    names = ["keypoint_0", "keypoint_1"]
    assert example.keypoint_names() == {"cat": names, "dog": names}
    first, second = [item.keypoints for item in example.image("0").objects]
    assert (first, second) == ([(0.5, 0.5, 2), (0.0, 0.0, 0)], [(0.25, 0.5, 2), (0.5, 0.5, 2)])


@cases(
    ({"object__class__label": bytes_feature([b"1", b"2"])}, "malformed_record", "numbers in .*found text"),
    ({"object__class__text": int64_feature([1, 2])}, "malformed_record", "text in .*found numbers"),
    ({"encoded": float_feature([1.0])}, "malformed_record", "text in image/encoded"),
    ({"object__difficult": int64_feature([1])}, "malformed_record", "2 values in .*difficult, found 1"),
    ({"object__view": bytes_feature([b"Left"])}, "malformed_record", "2 values in .*view, found 1"),
    ({"object__class__label": int64_feature([3])}, "malformed_record", "a class for each of 2 boxes"),
    ({"object__class__label": None}, "malformed_record", "a class for each of 2 boxes, found 0"),
    ({"object__class__label": int64_feature([3, 9])}, "unknown_category", r"the ids \[9\] have no name"),
    ({"object__mask": bytes_feature([b"a"])}, "malformed_mask", "a mask for each of 2 boxes, found 1"),
    ({"object__bbox__xmin": float_feature([0.5])}, "malformed_record", "as many of each side"),
    ({"object__keypoint__x": float_feature([0.5])}, "malformed_record", "as many keypoints of each"),
)
def test_columns_that_do_not_belong_together_are_rejected(*, changed, reason, found):
    assert refused(Rejected, found, lambda: _example(**changed).image("0")).reason == reason


LISTS = ("class__label", "object__class__label", "object__is_crowd", "object__weight", "object__area")


@cases(*itertools.product(LISTS, [math.nan, math.inf, -math.inf]))
def test_numbers_that_are_none_put_the_record_aside(*, key, value):
    example = lambda: _example(**{key: float_feature([1.0, value])}).image("0")  # noqa: E731
    error = refused(Rejected, f"finite numbers in image/{key.replace('__', '/')}", example)
    assert error.reason == "malformed_record"
