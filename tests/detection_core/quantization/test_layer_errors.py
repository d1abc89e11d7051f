"""Errors of layers, against plain numpy and with a layer that was spoilt."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.errors import ModelError
from detection_core.quantization.aware import PREFIX, add_fake_quantization, set_ranges
from detection_core.quantization.folding import fold_batch_norms
from detection_core.quantization.layer_errors import MOST_DB, layer_errors
from detection_core.quantization.rewriting import rewrite
from tests.support.cases import refused
from tests.support.small_detectors import small_detector, spoil
from tests.support.tiny_network import observe_ranges, tiny_network

PIXELS = np.random.default_rng(3).uniform(-1, 1, (4, 32, 32, 3)).astype(np.float32)
OPTIONS = QuantizationOptions(delay=0)


def prepared(network: tf_keras.Model, options: QuantizationOptions = OPTIONS):
    folded = fold_batch_norms(network)
    aware = add_fake_quantization(folded, options, input_range=(-1.0, 1.0))
    set_ranges(aware, observe_ranges(folded, aware.placement, [PIXELS]))
    return folded, aware


def decibels(signal: np.ndarray, noise: np.ndarray) -> float:
    """Mean over channels, one by one."""
    found = []
    for channel in range(signal.shape[-1]):
        power = [float(np.sum(np.float64(values[..., channel]) ** 2)) for values in (signal, noise)]
        if power[0]:
            found.append(min(MOST_DB, 10 * np.log10(power[0] / power[1])) if power[1] else MOST_DB)
    return float(np.mean(found))


def test_errors_are_those_that_numpy_finds_and_each_bit_is_worth_six_decibels():
    folded, aware = prepared(tiny_network())
    found = {one.layer: one for one in layer_errors(folded, aware, [PIXELS[:3], PIXELS[3:]])}
    twin = aware.network.get_layer(PREFIX + "project")
    layer = folded.network.get_layer("project")
    expected = tf_keras.Model(folded.network.inputs, layer.output)(PIXELS).numpy()
    inputs, output = (
        value.numpy() for value in tf_keras.Model(aware.network.inputs, [twin.input, twin.output])(PIXELS)
    )
    one, error = found["project"], np.abs(output - expected)
    assert one.own_db == pytest.approx(decibels(layer(inputs).numpy(), output - layer(inputs)), abs=1e-3)
    assert one.total_db == pytest.approx(decibels(expected, output - expected), abs=1e-3)
    assert one.own_db > one.total_db + 1  # the layers before it are not its own doing
    assert (one.mean_error, one.largest_error) == pytest.approx((error.mean(), error.max()), rel=1e-4)
    assert one.range == pytest.approx((expected.min(), expected.max()), rel=1e-5)
    assert (one.kind, one.group) == ("Conv2D", "other")
    # Layers that only move values add no error.
    names = list(found)
    assert not {"pixels", "stem_pad", "coarse_pool", "up", "box_codes_0"} & set(names)
    assert {"stem", "stem_relu", "residual", "box_codes", "class_logits"} <= set(names)
    assert names.index("stem") < names.index("residual") < names.index("box_codes")
    refused(ModelError, "at least one batch to measure", layer_errors, folded, aware, [])
    network = tiny_network()
    found = {}
    for bits in (6, 8):
        options = QuantizationOptions(delay=0, weight_bits=bits, activation_bits=bits)
        errors = layer_errors(*prepared(network, options), [PIXELS])
        found[bits] = {one.layer: one.own_db for one in errors}
    gains = [found[8][name] - found[6][name] for name in found[8]]
    assert np.median(gains) == pytest.approx(2 * 6.02, abs=1.0)
    for name in ("gamma", "beta"):
        getattr(network.get_layer("project_bn"), name).assign(tf.zeros([8]))
    (one,) = (e for e in layer_errors(*prepared(network), [PIXELS]) if e.layer == "project")
    assert (one.own_db, one.total_db, one.range) == (None, None, (0.0, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["ssd", "efficientdet"])
def test_a_channel_of_huge_range_comes_first_and_its_part_in_float_mends_it(family):
    pixels = tf.constant(np.random.default_rng(0).uniform(0, 255, (2, 64, 64, 3)).astype(np.float32))
    detector = small_detector(family)
    layer = spoil(detector.network, family, 1e4)
    rewritten = rewrite(detector, OPTIONS)
    rewritten.calibrate([pixels])
    found = {one.layer: one for one in rewritten.layer_errors([pixels])}
    ratios = sorted((one.own_db, name) for name, one in found.items() if one.own_db is not None)
    assert ratios[0][1] == layer and ratios[0][0] < 10.0 and ratios[1][0] > ratios[0][0] + 10.0

    part = rewritten.groups()[found[layer].group]
    expected, output = (
        tf_keras.Model(network.inputs, network.get_layer(layer).output)(detector.preprocess(pixels)).numpy()
        for network in (rewritten.folded.network, rewritten.leave_in_float(part).network)
    )
    assert layer in part and decibels(expected, output - expected) > found[layer].total_db + 10.0
