import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment.large_scale_jitter import LargeScaleJitter
from tests.detection_core.augment.mixing_samples import BOXES_PX, SIZES, bounds, shining


@settings(max_examples=40, deadline=None)
@given(SIZES, BOXES_PX, st.integers(0, 2**31))
def test_objects_are_where_their_pixels_are(size, box, seed):
    jitter = LargeScaleJitter(height=60, width=72, scale_min=0.5)
    found = jitter(shining(size, box, masks=True), tf.constant([seed, 2], tf.int64))
    assert found.image.shape == (60, 72, 3) and found.truth.masks.shape[1:] == (60, 72)
    for corners, mask in zip(found.truth.boxes.numpy() * [60, 72, 60, 72], found.truth.masks, strict=True):
        bright = found.image.numpy()[..., 0] > 127
        if bright.any() and tf.reduce_any(mask > 0):
            np.testing.assert_allclose(bounds(bright), corners, atol=2.0)
            np.testing.assert_allclose(bounds(mask.numpy()), corners, atol=2.0)


def test_scales_spread_evenly_over_the_range():
    white = shining((50, 50), (0, 0, 50, 50))
    jitter = LargeScaleJitter(height=50, width=50, per_channel_pad_value=(0.0, 0.0, 9.0), min_visible=0.0)
    images = [jitter(white, tf.constant([i, 2], tf.int64)).image.numpy() for i in range(100)]
    # Uniform in [0.1, 2): 9 of 19 are smaller than the frame, evenly.
    small = np.array([side for image in images if (side := (image[0, :, 2] == 0).sum() / 50) < 1.0])
    assert abs(len(small) / 100 - 9 / 19) < 0.12
    assert abs(small.mean() - 0.55) < 0.1 and small.min() < 0.2
