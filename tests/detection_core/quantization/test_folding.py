"""Batch-norm folding against the network it came from."""

import numpy as np
import pytest
import tf_keras

from detection_core.detectors.parts.layers.constants import AddConstant
from detection_core.quantization.folding import fold_batch_norms
from tests.support.tiny_network import tiny_network


@pytest.fixture(scope="module")
def network() -> tf_keras.Model:
    return tiny_network()


def test_outputs_are_those_of_the_network_in_inference(network):
    x = np.random.default_rng(1).uniform(-1, 1, (2, 32, 32, 3)).astype(np.float32)
    before = network(x, training=False)
    after = fold_batch_norms(network).network(x, training=False)
    for a, b in zip(before, after, strict=True):
        assert float(np.std(a)) > 0.1  # an output that is nearly constant would compare equal to anything
        np.testing.assert_allclose(a, b, atol=1e-4, rtol=0)


def test_no_normalisation_is_left_and_levels_have_their_own_convolutions(network):
    folded = fold_batch_norms(network)
    assert not [la for la in folded.network.layers if isinstance(la, tf_keras.layers.BatchNormalization)]
    assert folded.folded["tower_level_0"] == "tower_bn_0" and folded.folded["tower_level_1"] == "tower_bn_1"
    kernels = [folded.network.get_layer(f"tower_level_{level}").kernel.numpy() for level in (0, 1)]
    assert not np.allclose(*kernels)
    assert all(len(layer._inbound_nodes) == 1 for layer in folded.network.layers)


def test_a_normalisation_whose_convolution_has_another_reader_stays():
    pixels = tf_keras.Input((8, 8, 3))
    conv = tf_keras.layers.Conv2D(4, 3, name="conv")(pixels)
    norm = tf_keras.layers.BatchNormalization(name="norm")(conv)
    network = tf_keras.Model(pixels, tf_keras.layers.Add(name="sum")([conv, norm]))
    network.get_layer("norm").moving_mean.assign([1.0, 2.0, 3.0, 4.0])
    folded = fold_batch_norms(network)
    assert folded.folded == {} and folded.network.get_layer("norm") is not network.get_layer("norm")
    x = np.random.default_rng(0).normal(size=(1, 8, 8, 3)).astype(np.float32)
    np.testing.assert_allclose(
        network(x, training=False), folded.network(x, training=False), atol=1e-5, rtol=0
    )


def test_the_original_is_untouched_and_regularizers_are_dropped(network):
    before = [w.numpy() for w in network.weights]
    folded = fold_batch_norms(network).network
    folded.get_layer("stem").kernel.assign(folded.get_layer("stem").kernel * 0)
    for a, b in zip(before, network.weights, strict=True):
        np.testing.assert_array_equal(a, b.numpy())
    assert folded.losses == []


def test_a_constant_offset_goes_into_the_bias():
    pixels = tf_keras.Input((4, 4, 3))
    outputs = [
        AddConstant(3.0, name=f"offset_{bias}")(tf_keras.layers.Conv2D(4, 1, use_bias=bias)(pixels))
        for bias in (True, False)
    ]
    network = tf_keras.Model(pixels, outputs)
    folded = fold_batch_norms(network)
    assert sorted(folded.folded.values()) == ["offset_False", "offset_True"]
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 3)).astype(np.float32)
    for before, after in zip(network(x), folded.network(x), strict=True):
        np.testing.assert_allclose(before, after, atol=1e-5, rtol=0)
