"""Brightness, contrast, hue, saturation and what else changes pixels evenly."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.augment import colour
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample, golden_step
from tests.support.cases import cases

ADJUST = {
    "adjust_brightness": colour.adjust_brightness,
    "adjust_contrast": colour.adjust_contrast,
    "adjust_hue": colour.adjust_hue,
    "adjust_saturation": colour.adjust_saturation,
    "pixel_value_scale": colour.scale_values,
}


@cases(
    "normalize_image",
    "rgb_to_gray_random",
    "rgb_to_gray",
    "subtract_channel_mean",
    "adjust_gamma",
    "adjust_gamma_default",
)
def test_golden(*, name):
    assert_golden(CASES[name], golden_step(CASES[name])(golden_sample(CASES[name]), SEED))


@cases(*[name for name in CASES if name.split("_0")[0].split("_1")[0].split("_-")[0] in ADJUST])
def test_golden_with_given_draws(*, name):
    ((step, draw),) = CASES[name].params["draws"].items()
    assert_golden(CASES[name], ADJUST[step](golden_sample(CASES[name]), tf.constant(draw)))


@cases(0, 1)
def test_golden_distortion(*, order):
    case = CASES[f"distort_color_order_{order}"]
    draws = {ADJUST[name]: draw for name, draw in case.params["draws"].items()}
    sample = golden_sample(case)
    for change, low, high in colour.COLOR_ORDERINGS[order]:
        assert low <= draws[change] <= high
        sample = change(sample, tf.constant(draws[change]))
    assert_golden(case, sample)


def test_random_changes_stay_in_the_range_of_pixels_and_vary():
    sample = golden_sample(CASES["rgb_to_gray"])
    for step in (
        colour.RandomDistortColor(color_ordering=1),
        colour.RandomPixelValueScale(),
        colour.RandomAdjustBrightness(max_delta=0.9),
        colour.RandomAdjustContrast(),
        colour.RandomAdjustHue(),
        colour.RandomAdjustSaturation(),
    ):
        images = [np.asarray(step(sample, tf.constant([i, 0], tf.int64)).image) for i in range(3)]
        assert all(image.min() >= 0.0 and image.max() <= 255.0 for image in images)
        assert np.abs(images[0] - images[1]).max() > 0 and np.abs(images[1] - images[2]).max() > 0
    with pytest.raises(ValueError, match="0 or 1, found 2"):
        colour.RandomDistortColor(color_ordering=2)
