"""Ranges held against what the tensors have."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.quantization import QUANTIZATION
from detection_core.errors import ModelError
from detection_core.quantization.aware import add_fake_quantization, read_ranges, set_ranges
from detection_core.quantization.folding import fold_batch_norms
from detection_core.quantization.quantizers import QuantizationOptions
from detection_core.quantization.range_checks import check_ranges
from detection_core.quantization.rewriting import rewrite
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_network import tiny_network

PIXELS = [
    tf.constant(np.random.default_rng(seed).uniform(-1, 1, (2, 32, 32, 3)).astype(np.float32))
    for seed in range(2)
]
FINE = QuantizationOptions(delay=0, weight_bits=16, activation_bits=16)


@pytest.fixture(scope="module")
def aware():
    """A network whose quantization is too fine to be seen, so that the float network tells its values."""
    made = add_fake_quantization(fold_batch_norms(tiny_network()), FINE, input_range=(-1.0, 1.0))
    set_ranges(made, dict.fromkeys(read_ranges(made), (-100.0, 100.0)))
    return made


def test_values_are_those_before_quantization_and_the_network_stays_as_it_was(aware):
    with pytest.raises(ModelError, match="at least one batch to check ranges on"):
        check_ranges(aware, [])
    before = aware.network(PIXELS[0], training=False)[0].numpy()
    check = check_ranges(aware, PIXELS)
    np.testing.assert_array_equal(aware.network(PIXELS[0], training=False)[0], before)
    assert len(aware.network.trainable_weights) > 0
    values, found = float_codes(), check.uses["box_codes"]
    np.testing.assert_allclose(found.observed, [values.min(), values.max()], atol=0.05)
    assert found.cut == 0.0
    assert found.used == pytest.approx((values.max() - values.min()) / 200, rel=0.02)
    assert "pixels" not in check.uses
    (warning,) = [text for text in check.warnings if text.startswith("class_logits:")]
    assert "range -100..100" in warning and "% of the range is used" in warning


def test_a_range_that_cuts_values_off_is_told_with_the_layer(aware):
    before, values = read_ranges(aware), float_codes()
    top = max(float(np.median(values)), 0.01)
    try:
        set_ranges(aware, {"box_codes": (min(values.min(), 0), top)})
        check = check_ranges(aware, PIXELS)
    finally:
        set_ranges(aware, before)
    (warning,) = [text for text in check.warnings if text.startswith("box_codes:")]
    assert "% of the values are cut off" in warning
    assert check.uses["box_codes"].cut == pytest.approx(float((values > top).mean()), abs=0.02)
    assert check.uses["box_codes"].observed[1] == pytest.approx(values.max(), abs=0.05)


def float_codes() -> np.ndarray:
    network = tiny_network()
    return np.concatenate([network(pixels, training=False)[0] for pixels in PIXELS])


def test_calibrated_ranges_are_neither(caplog):
    rewritten = rewrite(TinyDetector(), QuantizationOptions(delay=0))
    pixels = [(batch + 1) * 127.5 for batch in PIXELS]
    rewritten.calibrate(pixels)
    check = rewritten.check_ranges(pixels)
    assert check.warnings == ()
    assert set(check.uses) == set(read_ranges(rewritten.aware))
    assert all(use.cut < 0.01 and use.used > 0.9 for use in check.uses.values())
    described = rewritten.describe(check)
    again = QUANTIZATION.parse(QUANTIZATION.format(described), "quantization.json")
    assert {layer.layer: layer.use for layer in again.quantized if layer.use} == check.uses
