"""The moving average against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from detection_core.optimizers.moving_average import MovingAverage


def test_averages_follow_the_dynamic_decay_from_zero() -> None:
    weights = tf.Variable([1.0, -2.0])
    average = MovingAverage([weights], decay=0.3)
    expected = np.zeros(2)
    for t, value in enumerate(([1.0, -2.0], [3.0, 0.5], [0.25, 4.0], [1.0, 1.0]), start=1):
        weights.assign(value)
        average.update(tf.constant(t, tf.int64))
        decay = min(0.3, (1 + t) / (10 + t))
        expected = decay * expected + (1 - decay) * np.array(value)
        np.testing.assert_allclose(average.averages[0], expected, rtol=1e-5, atol=1e-6)


def test_swapping_in_ends_with_the_block_even_after_an_error() -> None:
    weights = tf.Variable([2.0])
    average = MovingAverage([weights], decay=0.5)
    average.update(tf.constant(1, tf.int64))
    with pytest.raises(RuntimeError), average.swapped_in():
        assert float(weights[0]) == pytest.approx(2.0 * (1 - 2 / 11))
        raise RuntimeError
    assert float(weights[0]) == 2.0


def test_a_decay_of_one_would_never_move() -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        MovingAverage([tf.Variable(1.0)], decay=1.0)
