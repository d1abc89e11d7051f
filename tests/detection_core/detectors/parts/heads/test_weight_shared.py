import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.detectors.parts.heads.predictions import HeadOutputs
from detection_core.detectors.parts.heads.weight_shared import WeightSharedHead, WeightSharedHeadOptions
from detection_core.detectors.parts.layers.layer_hyperparams import (
    BatchNormOptions,
    LayerHyperparams,
    Regularizer,
)
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from tests.support.cases import cases

L2 = Regularizer(kind="l2", weight=1.0)
HYPERPARAMS = LayerHyperparams(batch_norm=BatchNormOptions(), regularizer=L2)


def _network(layers: NetworkLayers, **options) -> tf_keras.Model:
    maps = [tf_keras.Input((4, 4, 8)), tf_keras.Input((2, 2, 8))]
    head = WeightSharedHead(WeightSharedHeadOptions(depth=6, num_layers_before_predictor=2, **options))
    outputs = HeadOutputs(anchors_per_location=[3, 3], num_class_slots=5)
    return tf_keras.Model(maps, list(head(maps, layers, outputs)))


@cases((True, 1), (False, 2))
def test_levels_share_convolutions_but_not_normalisations(*, share, towers):
    layers = NetworkLayers(hyperparams=HYPERPARAMS)
    network = _network(layers, share_prediction_tower=share, class_prediction_bias_init=-4.6)
    codes, logits = network([tf.zeros([1, 4, 4, 8]), tf.zeros([1, 2, 2, 8])])
    assert codes.shape == (1, 60, 4)
    np.testing.assert_allclose(logits, np.full((1, 60, 5), -4.6), rtol=1e-6)
    convolutions = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.Conv2D)]
    norms = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.BatchNormalization)]
    assert len(convolutions) == 2 * towers + 2
    assert len(norms) == 2 * 2 * towers
    assert all(len(layer.inbound_nodes) == 2 for layer in convolutions)


@cases(
    ({}, {"depthwise_kernel": ["tower"], "kernel": []}),
    (
        {"apply_conv_hyperparams_pointwise": True},
        {"depthwise_kernel": ["tower"], "kernel": ["tower"]},
    ),
    (
        {"apply_conv_hyperparams_to_heads": True},
        {"depthwise_kernel": ["box_head", "class_head", "tower"], "kernel": []},
    ),
    (
        {"apply_conv_hyperparams_to_heads": True, "apply_conv_hyperparams_pointwise": True},
        {
            "depthwise_kernel": ["box_head", "class_head", "tower"],
            "kernel": ["box_head", "class_head", "tower"],
        },
    ),
)
def test_which_separable_kernels_the_hyperparameters_reach(*, settings, regularized):
    layers = NetworkLayers(hyperparams=HYPERPARAMS)
    _network(layers, use_depthwise=True, share_prediction_tower=True, **settings)
    found: dict[str, set[str]] = {"depthwise_kernel": set(), "kernel": set()}
    for name in layers.regularizers:
        layer, weight = name.split("/")
        part = layer.removesuffix("_depthwise").removesuffix("_pointwise").rstrip("_01")
        found[weight].add(part)
    assert {weight: sorted(parts) for weight, parts in found.items()} == regularized


def test_scores_instead_of_logits():
    network = _network(NetworkLayers(hyperparams=HYPERPARAMS), score_converter="sigmoid")
    scores = network([tf.zeros([1, 4, 4, 8]), tf.zeros([1, 2, 2, 8])])[1]
    np.testing.assert_allclose(scores, np.full((1, 60, 5), 0.5))


def test_levels_with_different_numbers_of_anchors_are_refused():
    outputs = HeadOutputs(anchors_per_location=[3, 2], num_class_slots=5)
    head = WeightSharedHead(WeightSharedHeadOptions(depth=6))
    maps = [tf_keras.Input((4, 4, 8)), tf_keras.Input((2, 2, 8))]
    with pytest.raises(ValueError, match="same number of anchors"):
        head(maps, NetworkLayers(hyperparams=HYPERPARAMS), outputs)
