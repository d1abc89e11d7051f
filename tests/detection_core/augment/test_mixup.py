import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.augment.mixup import MixUp, blended
from tests.detection_core.augment.mixing_samples import BOXES_PX, SIZES, partners, shining


@settings(max_examples=30, deadline=None)
@given(SIZES, BOXES_PX, SIZES, BOXES_PX, st.floats(0, 1, width=32))
def test_pixels_and_weights_are_blended_and_boxes_stay_where_they_are(size, box, other, moved, part):
    first, second = shining(size, box, masks=True), shining(other, moved, channel=1, masks=True)
    found = blended(first, second, tf.constant(part))
    frame = np.maximum(size, other)
    assert found.image.shape == (*frame, 3)
    expected = np.zeros([*frame, 3])
    for (row, column, rows, columns), channel, weight in ((box, 0, part), (moved, 1, 1 - part)):
        expected[row : row + rows, column : column + columns, channel] = 255 * weight
    np.testing.assert_allclose(found.image, expected, atol=1e-2)
    # TensorFlow flushes subnormal numbers to zero.
    np.testing.assert_allclose(found.truth.weights, [part, 1 - part], rtol=1e-6, atol=1e-37)
    pixels = found.truth.boxes.numpy() * np.tile(frame, 2)
    boxes = [[b[0], b[1], b[0] + b[2], b[1] + b[3]] for b in (box, moved)]
    np.testing.assert_allclose(pixels, boxes, atol=1e-3)
    assert found.truth.masks.numpy().sum((1, 2)).tolist() == [b[2] * b[3] for b in (box, moved)]
    assert found.source_id == first.source_id


def test_the_part_follows_the_beta_distribution():
    step = MixUp(alpha=1.5)
    parts = [float(step.part(tf.constant([i, 8], tf.int64))) for i in range(400)]
    # Beta(a, a) has the mean 1/2 and the variance 1 / (8 a + 4).
    assert abs(np.mean(parts) - 0.5) < 0.05
    assert abs(np.var(parts) - 1 / 16) < 0.012


def test_the_probability_is_followed():
    sample, other = shining((40, 40), (0, 0, 5, 5)), shining((40, 40), (9, 9, 5, 5))
    step = MixUp(probability=0.4)
    found = [step(sample, partners(other), tf.constant([i, 8], tf.int64)) for i in range(80)]
    counts = [len(one.truth.boxes) for one in found]
    assert set(counts) == {1, 2} and 20 <= counts.count(2) <= 44
