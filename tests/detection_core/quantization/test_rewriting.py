"""A detector rewritten with fake quantization, and its record."""

import json
import logging

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.artifacts.quantization import QUANTIZATION, QuantizationOptions
from detection_core.errors import ContractError
from detection_core.quantization.layer_errors import OutputNoise
from detection_core.quantization.rewriting import RewrittenDetector, input_range, read_options, rewrite
from tests.support.cases import cases
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_network import randomise

pytestmark = pytest.mark.slow

FLOAT_STAGES = {"suppression": "compares and sorts"}
PIXELS = tf.constant(np.random.default_rng(0).uniform(0, 255, (2, 32, 32, 3)).astype(np.float32))


@pytest.fixture(scope="module")
def rewritten() -> RewrittenDetector:
    found = rewrite(TinyDetector(), QuantizationOptions(delay=0), float_stages=FLOAT_STAGES)
    found.calibrate([PIXELS])
    return found


def test_the_record_lists_what_is_quantized_and_what_is_not(rewritten):
    assert input_range(TinyDetector()) == (-1.0, 1.0)  # of preprocessed pixels
    record = json.loads(QUANTIZATION.format(rewritten.describe()))
    settings = {"delay": 0, "weight_bits": 8, "activation_bits": 8, "symmetric": False}
    assert record["settings"] == settings
    entries = {entry["layer"]: entry for entry in record["quantized"]}
    assert entries["dw"] == {
        "layer": "dw", "kind": "DepthwiseConv2D", "weights": "depthwise_kernel", "output": "dw_relu",
        "folded": "dw_bn",
    }  # fmt: skip
    assert entries["dw_relu"]["range"][0] == 0.0 and 0 < entries["dw_relu"]["range"][1] <= 6.0
    assert {entry["layer"] for entry in record["not_quantized"]} == set(FLOAT_STAGES)
    assert record["coverage"]["convolutions"] == record["coverage"]["quantized_convolutions"] == 11
    assert record["coverage"]["fraction"] == 1.0


def test_a_layer_that_stays_in_float_lowers_the_coverage_and_is_warned_of(caplog):
    pixels = tf_keras.Input((32, 32, 3))
    x = tf_keras.layers.Conv2D(3, 1, activation="tanh", name="bent")(pixels)
    y = tf_keras.layers.Conv2D(4, 1, name="straight")(x)
    network = tf_keras.Model(pixels, [y, y])
    with caplog.at_level(logging.WARNING):
        record = rewrite(TinyDetector(network), QuantizationOptions(delay=0)).describe()
    assert "bent stays in float: no integer rule for its activation 'tanh'" in caplog.text
    assert record.coverage.fraction == pytest.approx(12 / 21)


def assert_same(found, expected, atol=0.0):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def test_rebuilt_from_the_record_it_takes_the_weights_and_ranges(rewritten, tmp_path):
    prefix = tf.train.Checkpoint(model=rewritten.model).write(str(tmp_path / "ckpt"))
    other = TinyDetector()
    randomise(other.network, 8)
    rebuilt = rewrite(other, read_options(QUANTIZATION.format(rewritten.describe()))).model
    tf.train.Checkpoint(model=rebuilt).read(prefix).assert_existing_objects_matched()
    expected, found = (m.network(m.preprocess(PIXELS), training=False) for m in (rewritten.model, rebuilt))
    assert_same(found, expected)


def test_another_file_is_no_record_of_a_quantization():
    for text in ("", "{}", '{"settings": {"bits": 8}}'):
        with pytest.raises(ContractError, match=r"q.json: expected the JSON that QuantizationRewriter"):
            read_options(text, where="q.json")


def test_with_all_layers_in_float_only_the_pixels_are_rounded(rewritten):
    layers = [layer for part in rewritten.groups().values() for layer in part]
    prepared = rewritten.model.preprocess(PIXELS)
    rounded = rewritten.aware.network.get_layer("quant_pixels")(prepared, training=False)
    expected = rewritten.folded.network(rounded, training=False)
    assert_same(rewritten.leave_in_float(layers).network(prepared, training=False), expected, atol=1e-3)
    same = rewritten.leave_in_float([]).network(prepared, training=False)
    assert_same(same, rewritten.model.network(prepared, training=False))


def randomised(seed: int) -> RewrittenDetector:
    detector = TinyDetector()
    randomise(detector.network, seed)
    return rewrite(detector, QuantizationOptions(delay=0))


# Weights of the first seed make both steps worse, and those of the other one better.
@cases((0, False), (2, True))
def test_what_is_not_trained_has_no_more_noise_than_it_would_have(*, seed, kept):
    made = [randomised(seed), randomised(seed)]
    given = made[0].model.preprocess(PIXELS)
    before = [output.numpy() for output in made[0].folded.network(given, training=False)]
    made[0].calibrate([PIXELS])
    made[1].calibrate_untrained(lambda: [PIXELS])
    for one, other in zip(before, made[1].folded.network(given, training=False), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3)
    plain, prepared = (OutputNoise(one.folded, one.aware).decibels([given]) for one in made)
    kernels = [one.folded.network.get_layer("dw").depthwise_kernel.numpy() for one in made]
    assert (not np.array_equal(*kernels), bool(made[1].corrections)) == (kept, kept)
    assert prepared > plain if kept else prepared == pytest.approx(plain, abs=1e-6)


def test_a_part_in_float_has_none_of_the_corrections_and_the_rest_keeps_its_own():
    found = randomised(2)
    found.calibrate_untrained(lambda: [PIXELS])
    assert found.corrections
    network, plain = found.leave_in_float(["stem"]).network, found.folded.network.get_layer
    np.testing.assert_array_equal(network.get_layer("stem").bias, plain("stem").bias)
    corrected = plain("dw").bias + found.corrections["dw"]
    np.testing.assert_allclose(network.get_layer("quant_dw").layer.bias, corrected, rtol=1e-6)
