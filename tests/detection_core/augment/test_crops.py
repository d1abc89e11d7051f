import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from detection_core.augment import crops
from detection_core.augment.crops import RandomCropImage, Window
from detection_core.protos import preprocessor_pb2
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample
from tests.support.cases import cases


def _options(name):
    step = text_format.Parse(CASES[name].config, preprocessor_pb2.PreprocessingStep())
    return getattr(step, step.WhichOneof("preprocessing_step"))


def _assert_golden_crop(name, window):
    options = _options(name)
    thresholds = {"overlap_thresh": options.overlap_thresh, "clip_boxes": options.clip_boxes}
    assert_golden(CASES[name], crops.crop(golden_sample(CASES[name]), window, **thresholds))


def test_golden_crops():
    for name in [name for name in CASES if name.startswith("crop_image_clip")]:
        begin, size, _ = CASES[name].params["draws"]["strict_crop_image[0.5]"]
        _assert_golden_crop(name, Window(tf.constant(begin[:2]), tf.constant(size[:2])))
    for name in ("crop_to_aspect_ratio", "crop_to_aspect_ratio_wide"):
        shape, begin = tf.shape(golden_sample(CASES[name]).image), CASES[name].params["draws"]
        size = crops.size_of_aspect_ratio(shape[:2], _options(name).aspect_ratio)
        _assert_golden_crop(name, Window(tf.constant(begin["crop_to_aspect_ratio"]), size))


def _sample():
    return golden_sample(CASES["crop_image_not_taken"])


def test_crops_cover_what_they_should_of_some_object():
    options = {"area_range": (0.1, 0.6), "overlap_thresh": 0.5, "clip_boxes": False}
    step = RandomCropImage(min_object_covered=0.9, **options)
    found = [step(_sample(), tf.constant([number, 0], tf.int64)) for number in range(20)]
    assert all(len(one.truth.boxes) for one in found)
    assert len({tuple(one.image.shape) for one in found}) > 5
    step = RandomCropImage(random_coef=1.0)
    tf.nest.map_structure(np.testing.assert_array_equal, step(_sample(), SEED), _sample())
    empty = golden_sample(CASES["normalize_image"])
    found = RandomCropImage(min_object_covered=0.0, area_range=(0.2, 0.5))(empty, SEED)
    assert np.prod(found.image.shape[:2]) < np.prod(empty.image.shape[:2])
    assert [c.min_object_covered for c in crops.ssd_crops()] == [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
    assert {(c.aspect_ratio_range, c.area_range) for c in crops.ssd_crops()} == {((0.5, 2.0), (0.1, 1.0))}
    step = crops.RandomCropToAspectRatio(aspect_ratio=0.5)
    for number in range(5):
        assert step(_sample(), tf.constant([number, 1], tf.int64)).image.shape == (8, 4, 3)


@cases(True, False)
def test_each_crop_of_a_set_is_chosen(*, alike):
    tall, wide = (0.1, 0.2), (5.0, 8.0)
    options = {"min_object_covered": 0.0, "area_range": (0.05, 0.2), "overlap_thresh": 0.0}
    shapes = ((tall if alike else wide, 0.0), (tall, 1.0))
    made = [RandomCropImage(aspect_ratio_range=r, random_coef=c, **options) for r, c in shapes]
    step = tf.function(crops.OneOfCrops(crops=tuple(made)))
    sizes = [step(_sample(), tf.constant([i, 7], tf.int64)).image.shape for i in range(24)]
    taken = [size for size in sizes if size != (8, 12, 3)]
    assert 5 < len(taken) < 19
    assert all((h > w) == alike for h, w, _ in taken)


@cases({"area_range": (0.5, 0.2)}, {"aspect_ratio_range": (0.0, 0.0)}, {"area_range": (0.5, 1.5)})
def test_ranges_without_a_window_are_refused(*, options):
    with pytest.raises(ValueError, match="range must"):
        RandomCropImage(**options)
