import numpy as np
import pytest
import tensorflow as tf

from detection_core.augment import scaling
from tests.detection_core.augment.golden_samples import CASES, SEED, assert_golden, golden_sample, golden_test

test_golden = golden_test(*[name for name in CASES if name.startswith("resize_image")])


def test_golden_scales_and_what_is_refused():
    for name in ("image_scale", "image_scale_down"):
        scale = tf.constant(CASES[name].params["draws"]["image_scale"])
        assert_golden(CASES[name], scaling.scale_image(golden_sample(CASES[name]), scale))
    case = CASES["downscale_to_target_pixels"]
    sample, target = golden_sample(case), case.params["draws"]["downscale_to_target_pixels[target_pixels]"]
    assert_golden(case, scaling.downscale_to_pixels(sample, tf.constant(target)))
    step = scaling.RandomDownscaleToTargetPixels(min_target_pixels=96, max_target_pixels=200)
    np.testing.assert_array_equal(step(sample, SEED).image, sample.image)
    with pytest.raises(ValueError, match="above 0"):
        scaling.RandomResizeMethod(target_height=0, target_width=7)
    with pytest.raises(ValueError, match="min_target_pixels"):
        scaling.RandomDownscaleToTargetPixels(min_target_pixels=9, max_target_pixels=8)


def test_sizes_and_scales_vary_within_their_range():
    sample = golden_sample(CASES["resize_image"])
    step = scaling.RandomResizeMethod(target_height=5, target_width=7)
    images = [np.asarray(step(sample, tf.constant([i, 0], tf.int64)).image) for i in range(12)]
    assert all(image.shape == (5, 7, 3) for image in images)
    assert len({image.tobytes() for image in images}) == 4
    sample, step = golden_sample(CASES["image_scale"]), scaling.RandomImageScale()
    heights = [step(sample, tf.constant([i, 0], tf.int64)).image.shape[0] for i in range(20)]
    assert min(heights) >= 4 and max(heights) <= 16 and len(set(heights)) > 4
