"""Fake quantization against plain numpy."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.quantization.options import QuantizationOptions
from detection_core.quantization.quantizers import (
    LARGEST_BIAS,
    ActivationQuantizer,
    BiasRule,
    Clock,
    InputQuantizer,
    KernelQuantizer,
    SigmoidQuantizer,
    usable_range,
)
from tests.support.cases import cases

OPTIONS, CLOCK = QuantizationOptions(delay=0), Clock(0, None)


def kernel_by_hand(kernel: np.ndarray, bits: int) -> np.ndarray:
    """Round each output channel (last axis) to 2**bits - 1 steps around zero."""
    flat = kernel.reshape(-1, kernel.shape[-1])
    result = np.empty_like(flat)
    top = 2 ** (bits - 1) - 1
    for channel in range(flat.shape[1]):
        scale = np.abs(flat[:, channel]).max() / top
        result[:, channel] = np.round(flat[:, channel] / scale) * scale
    return result.reshape(kernel.shape)


def kernel_quantizer(bits: int = 8, **options) -> KernelQuantizer:
    return KernelQuantizer(bits, CLOCK, **{"depthwise": False, **options})


def test_a_kernel_has_a_scale_per_output_channel():
    rng = np.random.default_rng(0)
    kernel = (rng.normal(size=(3, 3, 4, 5)) * np.logspace(-3, 0, 5)).astype(np.float32)
    for bits in (4, 8):
        found = kernel_quantizer(bits)(tf.constant(kernel), False, {})
        np.testing.assert_allclose(found, kernel_by_hand(kernel, bits), rtol=1e-4, atol=1e-7)
        assert all(len(np.unique(np.asarray(found)[..., c])) <= 2**bits - 1 for c in range(5))
    dead = kernel_quantizer()(tf.zeros([1, 1, 2, 2]), False, {})
    np.testing.assert_array_equal(dead, np.zeros([1, 1, 2, 2]))
    # Of a depthwise one for each input channel and multiplier.
    kernel = rng.normal(size=(3, 3, 4, 2)).astype(np.float32)
    kernel *= np.array([1.0, 0.01, 3.0, 0.2], np.float32)[:, None]
    found = kernel_quantizer(depthwise=True)(tf.constant(kernel), False, {})
    expected = kernel_by_hand(kernel.reshape(3, 3, 8), 8).reshape(kernel.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def scale_of(quantizer: KernelQuantizer, kernel: np.ndarray) -> np.ndarray:
    """The quantizer's step of each channel, found by giving it a kernel with one value on every step."""
    ranges = []
    original = tf.quantization.fake_quant_with_min_max_vars_per_channel

    def spy(inputs, low, high, **options):
        ranges.append(np.asarray(high))
        return original(inputs, low, high, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.quantization, "fake_quant_with_min_max_vars_per_channel", spy)
        quantizer(tf.constant(kernel), False, {})
    return ranges[0] / (2 ** (quantizer.bits - 1) - 1)


@cases(False, True)
def test_a_dead_channel_has_room_for_its_bias(*, depthwise):
    """A kernel of 1e-9 and a bias of 10: at the kernel's own scale those are steps beyond an int32."""
    kernel = np.full((3, 3, 4, 1) if depthwise else (3, 3, 2, 4), 0.5, np.float32)
    bias = np.float32([10.0, -10.0, 0.3, 0.0])
    kernel[(..., [0, 1], slice(None)) if depthwise else (..., [0, 1])] = 1e-9
    rule = BiasRule(bias=tf.Variable(bias), input_range=lambda: (0.0, 6.0), activation_bits=8)
    found = scale_of(kernel_quantizer(depthwise=depthwise, bias_rule=rule), kernel)
    codes = np.abs(bias) / (found * 6.0 / 255)
    assert (codes <= LARGEST_BIAS * 1.001).all() and codes[0] > 2**20
    np.testing.assert_allclose(found[2:], 0.5 / 127, rtol=1e-6)
    plain = scale_of(kernel_quantizer(depthwise=depthwise), kernel)
    assert abs(bias[0]) / (plain[0] * 6.0 / 255) > 2**31


def test_kernels_learn_as_if_they_were_not_rounded():
    kernel = tf.Variable(np.random.default_rng(2).normal(size=(1, 1, 3, 4)).astype(np.float32))
    weight = tf.constant(np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(kernel_quantizer()(kernel, True, {}) * weight)
    np.testing.assert_allclose(tape.gradient(loss, kernel), weight)


def activation(options: QuantizationOptions, step: tf.Variable | None) -> tuple:
    layer = tf_keras.layers.Layer()
    quantizer = ActivationQuantizer(options, Clock(options.delay, step))
    return quantizer, quantizer.build((None, 4), "output", layer)


def test_the_range_follows_training_batches_and_stands_still_in_inference():
    quantizer, variables = activation(OPTIONS, None)
    variables["min"].assign(-1.0)
    variables["max"].assign(2.0)
    quantizer(tf.constant([[-3.0, 0.0, 1.0, 7.0]]), False, variables)
    assert (variables["min"].numpy(), variables["max"].numpy()) == (-1.0, 2.0)
    quantizer(tf.constant([[-3.0, 0.0, 1.0, 7.0]]), True, variables)
    np.testing.assert_allclose([variables["min"].numpy(), variables["max"].numpy()], [-1.02, 2.05], rtol=1e-5)


def test_until_the_delay_values_pass_while_ranges_are_observed():
    step = tf.Variable(0, dtype=tf.int64)
    quantizer, variables = activation(QuantizationOptions(delay=2, activation_bits=2), step)
    values = tf.constant([[-6.0, 0.3, 1.0, 6.0]])
    untouched, rounded = [], []
    for _ in range(4):
        untouched.append(bool(tf.reduce_all(quantizer(values, True, variables) == values)))
        rounded.append(bool(tf.reduce_any(quantizer(values, False, variables) != values)))
        step.assign_add(1)
    assert untouched == [True, True, False, False]
    assert all(rounded)  # what is exported is quantized, whatever the delay


def test_zero_is_always_in_the_range_and_symmetric_puts_it_in_the_middle():
    low, high = usable_range(0.5, 2.0, OPTIONS)
    assert (float(low), float(high)) == (0.0, 2.0)
    for bits in (4, 8):
        options = QuantizationOptions(delay=0, activation_bits=bits, symmetric=True)
        for low, high in ((-1.0, 3.0), (-5.0, 2.0), (0.0, 6.0)):
            found_low, found_high = (float(v) for v in usable_range(low, high, options))
            steps = 2 ** (bits - 1)
            assert found_low <= low and found_high >= high * 0.999
            np.testing.assert_allclose(found_low / steps, -found_high / (steps - 1), rtol=1e-6)


def test_pixels_keep_their_256_values_and_a_sigmoid_has_them_from_zero_on():
    pixels = np.arange(256, dtype=np.float32) / 127.5 - 1
    found = np.asarray(InputQuantizer(OPTIONS, CLOCK, (-1.0, 1.0), name="input")(pixels, training=False))
    assert len(np.unique(found)) == 256 and np.abs(found - pixels).max() < 1 / 127.5
    values = tf.constant([0.0, 0.1, 0.5, 0.9999, 1.0])
    found = SigmoidQuantizer(OPTIONS, CLOCK)(values, False, {})
    np.testing.assert_allclose(found, np.minimum(np.round(values * 256.0), 255.0) / 256.0, atol=1e-6)
    assert SigmoidQuantizer(OPTIONS, CLOCK).build((4,), "gate", None) == {}
    # It is left alone before the delay has passed.
    step = tf.Variable(3, dtype=tf.int64)
    quantize = SigmoidQuantizer(QuantizationOptions(delay=5), Clock(5, step))
    values = tf.constant([0.1234])
    np.testing.assert_array_equal(quantize(values, True, {}), values)
    step.assign(5)
    assert float(quantize(values, True, {})[0]) == pytest.approx(32 / 256)
