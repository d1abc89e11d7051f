import numpy as np
import tensorflow as tf

from detection_core.augment import pads
from detection_core.augment.crops import RandomCropImage
from detection_core.augment.pads import RandomAbsolutePadImage, RandomCropPadImage, RandomPadImage, pad
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample, golden_step
from tests.support.cases import cases


@cases("pad_image", "pad_image_color", "absolute_pad_image", "absolute_pad_image_one")
def test_golden(*, name):
    draw = tf.constant(CASES[name].params["draws"]["pad_image"])
    colour = golden_step(CASES[name]).pad_color
    assert_golden(CASES[name], pad(golden_sample(CASES[name]), draw[:2], draw[2:], colour))


def _sizes(step):
    sample, step = golden_sample(CASES["horizontal_flip"]), tf.function(step)
    found = [step(sample, tf.constant([i, 2], tf.int64)) for i in range(40)]
    assert all(np.asarray(s.truth.masks).sum() == np.asarray(sample.truth.masks).sum() for s in found)
    return np.array([s.image.shape[:2] for s in found])


def test_padding_stays_in_its_bounds():
    sizes = _sizes(RandomPadImage())
    assert (sizes >= [8, 12]).all() and (sizes <= [16, 24]).all()
    assert sizes[:, 0].min() < 10 and sizes[:, 0].max() > 14
    sizes = _sizes(RandomAbsolutePadImage(max_height_padding=2, max_width_padding=5))
    assert set(sizes[:, 0]) == {8, 9, 10} and set(sizes[:, 1]) == {12, 13, 14, 15, 16, 17}
    assert (_sizes(RandomPadImage(min_image_size=(4, 20), max_image_size=(6, 20))) == [8, 20]).all()
    crop = RandomCropImage(min_object_covered=0.0, area_range=(0.1, 0.2), aspect_ratio_range=(0.5, 2.0))
    step = RandomCropPadImage(crop=crop, min_padded_size_ratio=(2.0, 2.0), max_padded_size_ratio=(2.0, 2.0))
    assert step(golden_sample(CASES["pad_image"]), SEED).image.shape == (16, 24, 3)


def test_padding_to_an_aspect_ratio_keeps_the_image_at_the_top_left():
    sample = golden_sample(CASES["horizontal_flip"])
    for number in range(4):
        found = pads.RandomPadToAspectRatio(aspect_ratio=1.0)(sample, tf.constant([number, 0], tf.int64))
        height, width, _ = found.image.shape
        assert height == width >= 12
        np.testing.assert_allclose(found.image[:8, :12], sample.image, atol=1e-4)
        assert np.abs(found.image[8:]).max() == 0
        pixels = np.asarray(found.truth.boxes) * np.array([height, width, height, width])
        np.testing.assert_allclose(pixels, np.asarray(sample.truth.boxes) * [8, 12, 8, 12], rtol=1e-5)
