import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.parts.layers.layer_hyperparams import (
    BatchNormOptions,
    LayerHyperparams,
    Regularizer,
)
from detection_core.detectors.parts.layers.network_layers import NetworkLayers, pad_to_multiple
from tests.support.cases import cases

L2 = Regularizer(kind="l2", weight=0.1)
HYPERPARAMS = LayerHyperparams(regularizer=L2, batch_norm=BatchNormOptions(), activation="relu6")


def test_regularizers_are_noted_by_name_and_layers_carry_none():
    layers = NetworkLayers(hyperparams=HYPERPARAMS)
    inputs = tf_keras.Input((8, 8, 3))
    features = layers.conv("a", 4, 3)(inputs)
    features = layers.separable("b", 4, 3)(features)
    features = layers.under(LayerHyperparams()).conv("c", 4, 1)(features)
    network = tf_keras.Model(inputs, layers.conv("d", 4, 1, plain=True)(features))
    assert layers.regularizers == {"a/kernel": L2, "b_depthwise/depthwise_kernel": L2}
    assert network.losses == []


@cases(8, 9)
def test_explicit_padding_gives_the_size_of_same_padding_and_the_values_of_a_padded_input(*, size):
    inputs = tf_keras.Input((size, size, 2))
    same = NetworkLayers(hyperparams=LayerHyperparams()).conv("same", 3, 3, stride=2)(inputs)
    layers = NetworkLayers(hyperparams=LayerHyperparams(), explicit_padding=True)
    explicit = layers.conv("explicit", 3, 3, stride=2)(inputs)
    assert explicit.shape == same.shape
    network = tf_keras.Model(inputs, explicit)
    image = np.random.default_rng(0).standard_normal((1, size, size, 2)).astype(np.float32)
    kernel = network.get_layer("explicit").kernel
    padded = np.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)])
    wanted = tf.nn.conv2d(padded, kernel, 2, "VALID")
    np.testing.assert_allclose(network(image), wanted, rtol=1e-5, atol=1e-5)


@cases((True, True), (False, False))
def test_frozen_normalisation_keeps_its_statistics_in_training(*, freeze, train):
    hyperparams = LayerHyperparams(batch_norm=BatchNormOptions(scale=True, train=train))
    layers = NetworkLayers(hyperparams=hyperparams, freeze_batch_norm=freeze)
    inputs = tf_keras.Input((2,))
    network = tf_keras.Model(inputs, layers.norm("n")(inputs))
    values = tf.constant([[1.0, 5.0], [3.0, 9.0]])
    np.testing.assert_allclose(network(values, training=True), values, rtol=1e-3)
    np.testing.assert_array_equal(network.get_layer("n").moving_mean, [0.0, 0.0])
    assert len(network.trainable_variables) == 2


def test_normalisation_is_trained_unless_frozen():
    layers = NetworkLayers(hyperparams=HYPERPARAMS)
    inputs = tf_keras.Input((2,))
    network = tf_keras.Model(inputs, layers.norm("n")(inputs))
    normalised = network(tf.constant([[1.0, 5.0], [3.0, 9.0]]), training=True)
    np.testing.assert_allclose(normalised, [[-1.0, -1.0], [1.0, 1.0]], atol=1e-2)
    assert network.get_layer("n").moving_mean.numpy().any()


@cases(
    ("none", [-2.0, 3.0, 8.0]),
    ("relu", [0.0, 3.0, 8.0]),
    ("relu6", [0.0, 3.0, 6.0]),
    ("swish", [-2.0 / (1 + np.exp(2.0)), 3.0 / (1 + np.exp(-3.0)), 8.0 / (1 + np.exp(-8.0))]),
)
def test_activations(*, activation, wanted):
    layers = NetworkLayers(hyperparams=LayerHyperparams(activation=activation))
    inputs = tf_keras.Input((3,))
    network = tf_keras.Model(inputs, layers.norm_activation(inputs, "x"))
    np.testing.assert_allclose(network(tf.constant([[-2.0, 3.0, 8.0]]))[0], wanted, rtol=1e-5)


def test_inputs_are_padded_below_and_to_the_right():
    inputs = tf_keras.Input((5, 8, 1))
    network = tf_keras.Model(inputs, pad_to_multiple(inputs, 4))
    padded = network(tf.ones([1, 5, 8, 1]))
    assert padded.shape == (1, 8, 8, 1)
    np.testing.assert_array_equal(padded[0, :, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0])
    assert pad_to_multiple(inputs, 1) is inputs
