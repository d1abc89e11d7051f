"""Trained networks without their fake quantization."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.quantization.rewriting import RewrittenDetector, rewrite, strip_fake_quantization
from tests.support.small_detectors import small_detector
from tests.support.tiny_detector import TinyDetector

PIXELS = np.random.default_rng(0).uniform(0, 255, (2, 32, 32, 3)).astype(np.float32)


def moved(detector: Any, pixels: np.ndarray, **options: int) -> RewrittenDetector:
    """A rewritten detector whose weights are no longer those that it was made with."""
    rewritten = rewrite(detector, QuantizationOptions(delay=0, **options))
    rewritten.calibrate([tf.constant(pixels)])
    rng = np.random.default_rng(3)
    for weight in rewritten.aware.network.trainable_weights:
        weight.assign(weight * rng.uniform(0.8, 1.2, weight.shape))
    return rewritten


@pytest.mark.slow
@pytest.mark.parametrize("family", ["ssd", "efficientdet"])
def test_nothing_but_the_rounding_goes(family):
    """With 16 bits there is next to none, so that both networks give the same."""
    pixels = np.random.default_rng(0).uniform(0, 255, (2, 64, 64, 3)).astype(np.float32)
    rewritten = moved(small_detector(family), pixels, weight_bits=16, activation_bits=16)
    rewritten.as_trained().calibrate([tf.constant(pixels)])
    prepared = rewritten.model.preprocess(tf.constant(pixels))
    plain = strip_fake_quantization(rewritten.aware.network, name="plain", rounded=True)
    assert {layer.name for layer in plain.layers} == {layer.name for layer in rewritten.folded.network.layers}
    networks = (rewritten.model.network, rewritten.folded.network)
    quantized, first = (network(prepared, training=False) for network in networks)
    for found, wanted, other in zip(plain(prepared), quantized, first, strict=True):
        spread = float(tf.math.reduce_std(wanted))
        np.testing.assert_allclose(found, wanted, atol=2e-2 * spread)
        assert float(tf.reduce_max(tf.abs(found - other))) > 0.1 * spread  # training moved them


def test_kernels_are_those_that_it_computes_with_or_those_that_training_moved():
    network = moved(TinyDetector(), PIXELS).aware.network
    rounded, exact = (
        strip_fake_quantization(network, name="plain", rounded=r).get_layer("tower_level_0")
        for r in (True, False)
    )
    wrapper = network.get_layer("quant_tower_level_0")
    ((weight, quantizer, variables),) = wrapper._weight_vars
    np.testing.assert_array_equal(rounded.kernel, quantizer(weight, False, weights=variables))
    np.testing.assert_array_equal(exact.kernel, weight)
    for layer in (rounded, exact):
        np.testing.assert_array_equal(layer.bias, wrapper.layer.bias)
    steps = np.abs(rounded.kernel.numpy()).max(axis=(0, 1, 2)) / 127
    np.testing.assert_allclose(np.round(rounded.kernel / steps) * steps, rounded.kernel, atol=1e-6)
    assert np.abs(exact.kernel - rounded.kernel).max() > 1e-4
    rewritten = moved(TinyDetector(), PIXELS)
    prepared = rewritten.model.preprocess(tf.constant(PIXELS))
    trained = rewritten.as_trained()
    first = trained.leave_in_float([]).network(prepared, training=False)
    for wanted, found in zip(rewritten.model.network(prepared, training=False), first, strict=True):
        np.testing.assert_array_equal(wanted, found)
    # Its layers' errors are those of rounding, not of what training changed.
    errors = {each.layer: each.total_db for each in trained.layer_errors([tf.constant(PIXELS)])}
    before = {each.layer: each.total_db for each in rewritten.layer_errors([tf.constant(PIXELS)])}
    assert min(errors.values()) > 20 > max(before.values())
    plain = rewritten.without_fake_quantization().network(prepared, training=False)
    for wanted, found in zip(trained.folded.network(prepared, training=False), plain, strict=True):
        error = tf.sqrt(tf.reduce_mean(tf.square(wanted - found)))
        assert 0 < float(error) < 0.05 * float(tf.math.reduce_std(wanted))
