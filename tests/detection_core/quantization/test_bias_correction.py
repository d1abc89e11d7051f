"""Means of channels that rounded kernels move, and that biases move back."""

import numpy as np
import pytest
import tf_keras

from detection_core.errors import ModelError
from detection_core.quantization.aware import PREFIX, add_fake_quantization, observe_ranges, set_ranges
from detection_core.quantization.bias_correction import correct_biases
from detection_core.quantization.folding import fold_batch_norms
from detection_core.quantization.options import QuantizationOptions
from tests.support.tiny_network import tiny_network

PIXELS = np.random.default_rng(3).uniform(0, 1, (4, 32, 32, 3)).astype(np.float32)
# Few bits, so that what is corrected is much.
OPTIONS = QuantizationOptions(delay=0, weight_bits=4, activation_bits=8)


def prepared():
    folded = fold_batch_norms(tiny_network())
    aware = add_fake_quantization(folded, OPTIONS, input_range=(-1.0, 1.0))
    set_ranges(aware, observe_ranges(folded, aware.placement, [PIXELS]))
    return folded, aware


def test_a_corrected_channel_has_the_mean_that_its_kernel_would_have_given():
    def own_means(name: str) -> np.ndarray:
        """Mean over positions of what a layer adds itself, float [C]."""
        twin = aware.network.get_layer(PREFIX + name)
        given = tf_keras.Model(aware.network.inputs, twin.input)(PIXELS)
        error = twin.unquantized_output(given) - folded.network.get_layer(name)(given)
        return error.numpy().mean(axis=(0, 1, 2))

    folded, aware = prepared()
    with pytest.raises(ModelError, match="at least one batch to correct"):
        correct_biases(folded, aware, [])
    before = own_means("stem")
    corrections = correct_biases(folded, aware, [PIXELS[:3], PIXELS[3:]])
    np.testing.assert_allclose(corrections["stem"], -before, rtol=1e-3, atol=1e-6)
    assert np.abs(before).max() > 1e-3 and np.abs(own_means("stem")).max() < 1e-5
    # Convolutions further on have inputs that the corrections before them changed.
    for name in set(corrections) - {"stem"}:
        assert np.abs(own_means(name)).mean() < 0.5 * np.abs(corrections[name]).mean()


def test_the_outputs_means_come_nearer_to_the_float_network_s():
    def means(network):
        return [output.numpy().mean(axis=(0, 1)) for output in network(PIXELS, training=False)]

    folded, aware = prepared()
    expected, found = means(folded.network), []
    for _ in range(2):
        pairs = zip(means(aware.network), expected, strict=True)
        found.append(float(np.mean([np.abs(one - other).mean() for one, other in pairs])))
        correct_biases(folded, aware, [PIXELS])
    assert found[1] < 0.5 * found[0]
