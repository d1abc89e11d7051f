"""Fake quantization of a map's product with a factor."""

import numpy as np
import tensorflow as tf

from detection_core.quantization.options import QuantizationOptions
from detection_core.quantization.product_quantizers import SMALLEST_FACTOR, FactorQuantizer, ProductQuantizer
from detection_core.quantization.quantizers import Clock

OPTIONS = QuantizationOptions(delay=0)
CLOCK = Clock(0, None)
LOW, HIGH = -1.3, 2.9


def product(factor: tf.Variable, options: QuantizationOptions = OPTIONS) -> ProductQuantizer:
    return ProductQuantizer(options, CLOCK, factor=factor, input_range=lambda: (LOW, HIGH))


def test_the_product_with_a_single_factor_loses_nothing_more():
    pixels = tf.constant(np.linspace(-2, 4, 500, dtype=np.float32))
    codes = tf.quantization.fake_quant_with_min_max_vars(pixels, LOW, HIGH)
    for factor in (0.37, 1.0, 4.2):
        variable = tf.Variable(factor)
        kept = FactorQuantizer(8, CLOCK)(variable, False, {})
        np.testing.assert_allclose(kept, factor, rtol=1e-6)
        found = product(variable)(codes * kept, False, {})
        np.testing.assert_allclose(found, codes * factor, rtol=1e-4, atol=1e-6)


def test_a_range_follows_the_factor():
    small = [LOW * SMALLEST_FACTOR, HIGH * SMALLEST_FACTOR]
    for factor, expected in (
        (-2.0, [-2 * HIGH, -2 * LOW]),
        # A dead one has steps that integer kernels take.
        (0.0, small),
        (1e-9, small),
        (-1e-9, small),
        # With a factor a channel the range holds every channel.
        ([0.5, 2.0, -1.0], [min(2 * LOW, -HIGH), 2 * HIGH]),
    ):
        np.testing.assert_allclose(product(tf.Variable(factor)).range_of({}), expected, rtol=1e-5)
    low, high = product(tf.Variable(0.5), QuantizationOptions(delay=0, symmetric=True)).range_of({})
    np.testing.assert_allclose(low, -high * 128 / 127, rtol=1e-6)
    found = FactorQuantizer(8, CLOCK)(tf.Variable([0.5, 2.0, 0.0]), False, {})
    np.testing.assert_allclose(found, [0.5, 2.0, 0.0], atol=2 / 255)


def test_training_moves_the_factor():
    factor = tf.Variable(0.5)
    with tf.GradientTape() as tape:
        kept = FactorQuantizer(8, CLOCK)(factor, True, {})
        loss = tf.reduce_sum(product(factor)(tf.constant([0.5, 1.0]) * kept, True, {}))
    np.testing.assert_allclose(tape.gradient(loss, factor), 1.5, rtol=1e-5)
