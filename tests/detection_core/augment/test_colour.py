import numpy as np
import pytest
import tensorflow as tf

from detection_core.augment import colour
from tests.detection_core.augment.golden_samples import CASES, assert_golden, golden_sample, golden_test
from tests.support.cases import cases

ADJUST = {f"adjust_{name}": getattr(colour, f"adjust_{name}") for name in ("brightness", "contrast", "hue")}
ADJUST |= {"adjust_saturation": colour.adjust_saturation, "pixel_value_scale": colour.scale_values}


test_golden = golden_test(
    *("normalize_image", "rgb_to_gray_random", "rgb_to_gray", "subtract_channel_mean"),
    *("adjust_gamma", "adjust_gamma_default"),
)


@cases(*[name for name, case in CASES.items() if ADJUST.keys() & case.params.get("draws", {}).keys()])
def test_golden_with_given_draws(*, name):
    sample, given = golden_sample(CASES[name]), CASES[name].params["draws"]
    draws = {ADJUST[step]: draw for step, draw in given.items()}
    order = colour.COLOR_ORDERINGS[int(name[-1])] if name.startswith("distort") else []
    assert all(low <= draws[change] <= high for change, low, high in order)
    for change in [change for change, *_ in order] or draws:
        sample = change(sample, tf.constant(draws[change]))
    assert_golden(CASES[name], sample)


def test_random_changes_stay_in_the_range_of_pixels_and_vary():
    sample = golden_sample(CASES["rgb_to_gray"])
    steps = [colour.RandomDistortColor(color_ordering=1), colour.RandomAdjustBrightness(max_delta=0.9)]
    steps += [colour.RandomPixelValueScale(), colour.RandomAdjustContrast(), colour.RandomAdjustHue()]
    for step in [*steps, colour.RandomAdjustSaturation()]:
        images = [np.asarray(step(sample, tf.constant([i, 0], tf.int64)).image) for i in range(3)]
        assert all(image.min() >= 0.0 and image.max() <= 255.0 for image in images)
        assert np.abs(images[0] - images[1]).max() > 0 and np.abs(images[1] - images[2]).max() > 0
    with pytest.raises(ValueError, match="0 or 1, found 2"):
        colour.RandomDistortColor(color_ordering=2)
