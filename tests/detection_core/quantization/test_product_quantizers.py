"""Fake quantization of a map's product with a factor."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from detection_core.quantization.options import QuantizationOptions
from detection_core.quantization.product_quantizers import (
    SMALLEST_FACTOR,
    FactorQuantizer,
    ProductQuantizer,
)
from detection_core.quantization.quantizers import Clock

OPTIONS = QuantizationOptions(delay=0)
CLOCK = Clock(0, None)
LOW, HIGH = -1.3, 2.9


def product(factor: tf.Variable, options: QuantizationOptions = OPTIONS) -> ProductQuantizer:
    return ProductQuantizer(options, CLOCK, factor=factor, input_range=lambda: (LOW, HIGH))


@pytest.mark.parametrize("factor", [0.37, 1.0, 4.2])
def test_the_product_with_a_single_factor_loses_nothing_more(factor):
    pixels = tf.constant(np.linspace(-2, 4, 500, dtype=np.float32))
    codes = tf.quantization.fake_quant_with_min_max_vars(pixels, LOW, HIGH)
    variable = tf.Variable(factor)
    kept = FactorQuantizer(8, CLOCK)(variable, False, {})
    np.testing.assert_allclose(kept, factor, rtol=1e-6)
    found = product(variable)(codes * kept, False, {})
    np.testing.assert_allclose(found, codes * factor, rtol=1e-4, atol=1e-6)


def test_a_negative_factor_turns_the_range_round():
    low, high = product(tf.Variable(-2.0)).range_of({})
    np.testing.assert_allclose([low, high], [-2 * HIGH, -2 * LOW], rtol=1e-6)


@pytest.mark.parametrize("factor", [0.0, 1e-9, -1e-9])
def test_a_dead_factor_has_steps_that_integer_kernels_take(factor):
    low, high = product(tf.Variable(factor)).range_of({})
    np.testing.assert_allclose([low, high], [LOW * SMALLEST_FACTOR, HIGH * SMALLEST_FACTOR], rtol=1e-5)


def test_with_a_factor_a_channel_the_range_holds_every_channel():
    low, high = product(tf.Variable([0.5, 2.0, -1.0])).range_of({})
    np.testing.assert_allclose([low, high], [min(2 * LOW, -HIGH), 2 * HIGH], rtol=1e-6)
    found = FactorQuantizer(8, CLOCK)(tf.Variable([0.5, 2.0, 0.0]), False, {})
    np.testing.assert_allclose(found, [0.5, 2.0, 0.0], atol=2 / 255)


def test_symmetric_ranges_stay_symmetric():
    low, high = product(tf.Variable(0.5), QuantizationOptions(delay=0, symmetric=True)).range_of({})
    np.testing.assert_allclose(low, -high * 128 / 127, rtol=1e-6)


def test_training_moves_the_factor():
    factor = tf.Variable(0.5)
    with tf.GradientTape() as tape:
        kept = FactorQuantizer(8, CLOCK)(factor, True, {})
        loss = tf.reduce_sum(product(factor)(tf.constant([0.5, 1.0]) * kept, True, {}))
    np.testing.assert_allclose(tape.gradient(loss, factor), 1.5, rtol=1e-5)
