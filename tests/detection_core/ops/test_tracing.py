"""What is traced once, and not rewritten."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.ops.tracing import compile_for_batches, without_rewrites
from tests.support.rewrites import rewrites


def test_rewrites_are_back_afterwards_whatever_happens():
    assert rewrites()
    with pytest.raises(ValueError, match="inside"), without_rewrites():
        assert not rewrites()
        with without_rewrites():
            pass
        assert not rewrites()
        raise ValueError("inside")
    assert rewrites()


def test_a_function_of_batches_is_traced_once_for_all_their_sizes():
    inputs = tf_keras.Input([4, 4, 3])
    network = tf_keras.Model(inputs, tf_keras.layers.ReLU()(inputs))
    traced = []

    def total(pixels):
        traced.append((pixels.shape, rewrites()))
        return tf.reduce_sum(network(pixels), [1, 2, 3])

    measure = compile_for_batches(network, total)
    for images in (3, 2, 1):
        pixels = np.ones((images, 4, 4, 3), np.float32)
        np.testing.assert_array_equal(measure(tf.constant(pixels)), [48.0] * images)
    assert [(shape.as_list(), on) for shape, on in traced] == [([None, 4, 4, 3], False)]
    assert rewrites()
