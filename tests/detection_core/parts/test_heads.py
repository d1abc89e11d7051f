"""Prediction heads: shapes, order of rows, shared layers and regularizers."""

import itertools

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.parts.heads import (
    MOST_JOINED,
    ConvolutionalHead,
    HeadOutputs,
    WeightSharedHead,
    per_anchor,
)
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams, Regularizer
from detection_core.parts.layers.network_layers import NetworkLayers
from tests.support.cases import cases, refused

LAYERS = NetworkLayers(hyperparams=LayerHyperparams(batch_norm=BatchNormOptions()))
OUTPUTS = HeadOutputs(anchors_per_location=[3, 2], num_class_slots=5)


def _network_convolutional(**options) -> tf_keras.Model:
    maps = [tf_keras.Input((4, 4, 8)), tf_keras.Input((2, 2, 6))]
    head = ConvolutionalHead(**options)
    return tf_keras.Model(maps, list(head(maps, LAYERS, OUTPUTS)))


def test_every_map_has_its_own_predictors_and_anchors_and_dropout_acts_in_training_only():
    dropout = {"use_dropout": True, "dropout_keep_probability": 0.5}
    network = _network_convolutional(class_prediction_bias_init=-2.0, **dropout)
    codes, logits = network([tf.zeros([2, 4, 4, 8]), tf.zeros([2, 2, 2, 6])])
    np.testing.assert_array_equal(codes, np.zeros((2, 3 * 16 + 2 * 4, 4)))
    np.testing.assert_array_equal(logits, np.full((2, 3 * 16 + 2 * 4, 5), -2.0))
    kernels = {weight.name: tuple(weight.shape) for weight in network.weights if "kernel" in weight.name}
    assert kernels == {
        "box_head_0/kernel:0": (1, 1, 8, 12),
        "box_head_1/kernel:0": (1, 1, 6, 8),
        "class_head_0/kernel:0": (1, 1, 8, 15),
        "class_head_1/kernel:0": (1, 1, 6, 10),
    }
    features = [tf.ones([1, 4, 4, 8]), tf.ones([1, 2, 2, 6])]
    once, again = network(features), network(features, training=True)
    np.testing.assert_array_equal(once[0], again[0])
    assert not np.allclose(once[1], again[1])


def test_layers_before_the_predictor_are_between_min_and_max_depth():
    network = _network_convolutional(num_layers_before_predictor=2, min_depth=7, max_depth=7, kernel_size=3)
    assert network.get_layer("head_shared_1_1").filters == 7
    assert network.get_layer("class_head_0").kernel.shape == (3, 3, 7, 15)
    names = {layer.name for layer in _network_convolutional(num_layers_before_predictor=2).layers}
    assert not any(name.startswith("head_shared") for name in names)


def test_rows_follow_map_then_row_then_column_then_anchor():
    inputs = [tf_keras.Input((2, 2, 6)), tf_keras.Input((1, 1, 6))]
    network = tf_keras.Model(inputs, per_anchor(inputs, 3, "rows"))
    first = np.arange(24, dtype=np.float32).reshape(1, 2, 2, 6)
    second = 100 + np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6)
    wanted = np.concatenate([first.reshape(1, 8, 3), second.reshape(1, 2, 3)], axis=1)
    np.testing.assert_array_equal(network([first, second]), wanted)
    assert per_anchor(inputs[:1], 2, "rows").shape == (None, 12, 2)  # one map needs no concatenation


def test_many_maps_are_joined_few_at_a_time_in_their_order():
    inputs = [tf_keras.Input((1, 1, 2)) for _ in range(7)]
    network = tf_keras.Model(inputs, per_anchor(inputs, 2, "rows"))
    joins = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.Concatenate)]
    assert max(len(layer.input) for layer in joins) <= MOST_JOINED and joins[-1].name == "rows"
    maps = [np.full((1, 1, 1, 2), number, np.float32) for number in range(7)]
    np.testing.assert_array_equal(network(maps)[0, :, 0], range(7))


L2 = Regularizer(kind="l2", weight=1.0)
HYPERPARAMS = LayerHyperparams(batch_norm=BatchNormOptions(), regularizer=L2)
SHARED_ZEROS = [tf.zeros([1, 4, 4, 8]), tf.zeros([1, 2, 2, 8])]


def _network_weight_shared(anchors=(3, 3), **options) -> tuple[tf_keras.Model, NetworkLayers]:
    layers = NetworkLayers(hyperparams=HYPERPARAMS)
    maps = [tf_keras.Input((4, 4, 8)), tf_keras.Input((2, 2, 8))]
    head = WeightSharedHead(depth=6, num_layers_before_predictor=2, **options)
    outputs = head(maps, layers, HeadOutputs(anchors_per_location=list(anchors), num_class_slots=5))
    return tf_keras.Model(maps, list(outputs)), layers


@cases((True, 1), (False, 2))
def test_levels_share_convolutions_but_not_normalisations(*, share, towers):
    network, _ = _network_weight_shared(share_prediction_tower=share, class_prediction_bias_init=-4.6)
    codes, logits = network(SHARED_ZEROS)
    assert codes.shape == (1, 60, 4)
    np.testing.assert_allclose(logits, np.full((1, 60, 5), -4.6), rtol=1e-6)
    convolutions = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.Conv2D)]
    norms = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.BatchNormalization)]
    assert len(convolutions) == 2 * towers + 2
    assert len(norms) == 2 * 2 * towers
    assert all(len(layer.inbound_nodes) == 2 for layer in convolutions)


@cases(*itertools.product((False, True), (False, True)))
def test_which_separable_kernels_the_hyperparameters_reach(*, heads, pointwise):
    reach = {"apply_conv_hyperparams_to_heads": heads, "apply_conv_hyperparams_pointwise": pointwise}
    _, layers = _network_weight_shared(use_depthwise=True, share_prediction_tower=True, **reach)
    found: dict[str, set[str]] = {"depthwise_kernel": set(), "kernel": set()}
    for name in layers.regularizers:
        layer, weight = name.split("/")
        found[weight].add(layer.removesuffix("_depthwise").removesuffix("_pointwise").rstrip("_01"))
    reached = {"tower", "box_head", "class_head"} if heads else {"tower"}
    assert found == {"depthwise_kernel": reached, "kernel": reached if pointwise else set()}


def test_scores_instead_of_logits_and_different_numbers_of_anchors_are_refused():
    scores = _network_weight_shared(score_converter="sigmoid")[0](SHARED_ZEROS)[1]
    np.testing.assert_allclose(scores, np.full((1, 60, 5), 0.5))
    refused(ValueError, "same number of anchors", _network_weight_shared, anchors=(3, 2))
