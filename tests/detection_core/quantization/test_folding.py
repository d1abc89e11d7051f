"""Batch-norm folding against the network it came from."""

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.parts.layers.constants import AddConstant
from detection_core.quantization.folding import fold_batch_norms
from tests.support.tiny_network import tiny_network


def assert_same_outputs(one: tf_keras.Model, other: tf_keras.Model, atol: float = 1e-5) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (2, *one.input_shape[1:])).astype(np.float32)
    for a, b in zip(*(tf.nest.flatten(network(x, training=False)) for network in (one, other)), strict=True):
        assert float(np.std(a)) > 0.1  # an output that is nearly constant would compare equal to anything
        np.testing.assert_allclose(a, b, atol=atol, rtol=0)


def test_a_folded_network_computes_the_same_without_normalisations_and_leaves_the_original():
    network = tiny_network()
    found = fold_batch_norms(network)
    assert_same_outputs(network, found.network, atol=1e-4)
    assert not [la for la in found.network.layers if isinstance(la, tf_keras.layers.BatchNormalization)]
    assert found.folded["tower_level_0"] == "tower_bn_0" and found.folded["tower_level_1"] == "tower_bn_1"
    kernels = [found.network.get_layer(f"tower_level_{level}").kernel.numpy() for level in (0, 1)]
    assert not np.allclose(*kernels)
    assert all(len(layer._inbound_nodes) == 1 for layer in found.network.layers)
    assert found.network.losses == []  # regularizers are dropped
    before = [w.numpy() for w in network.weights]
    found.network.get_layer("stem").kernel.assign(found.network.get_layer("stem").kernel * 0)
    for a, b in zip(before, network.weights, strict=True):
        np.testing.assert_array_equal(a, b.numpy())


def test_a_normalisation_whose_convolution_has_another_reader_stays():
    pixels = tf_keras.Input((8, 8, 3))
    conv = tf_keras.layers.Conv2D(4, 3, name="conv")(pixels)
    norm = tf_keras.layers.BatchNormalization(name="norm")(conv)
    network = tf_keras.Model(pixels, tf_keras.layers.Add(name="sum")([conv, norm]))
    network.get_layer("norm").moving_mean.assign([1.0, 2.0, 3.0, 4.0])
    folded = fold_batch_norms(network)
    assert folded.folded == {} and folded.network.get_layer("norm") is not network.get_layer("norm")
    assert_same_outputs(network, folded.network)


def test_a_constant_offset_goes_into_the_bias():
    pixels = tf_keras.Input((4, 4, 3))
    outputs = [
        AddConstant(3.0, name=f"offset_{bias}")(tf_keras.layers.Conv2D(4, 1, use_bias=bias)(pixels))
        for bias in (True, False)
    ]
    network = tf_keras.Model(pixels, outputs)
    folded = fold_batch_norms(network)
    assert sorted(folded.folded.values()) == ["offset_False", "offset_True"]
    assert_same_outputs(network, folded.network)
