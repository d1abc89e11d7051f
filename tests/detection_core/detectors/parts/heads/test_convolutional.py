import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.parts.heads.convolutional import ConvolutionalHead, ConvolutionalHeadOptions
from detection_core.detectors.parts.heads.predictions import HeadOutputs
from detection_core.detectors.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams
from detection_core.detectors.parts.layers.network_layers import NetworkLayers

LAYERS = NetworkLayers(hyperparams=LayerHyperparams(batch_norm=BatchNormOptions()))
OUTPUTS = HeadOutputs(anchors_per_location=[3, 2], num_class_slots=5)


def _network(**options) -> tf_keras.Model:
    maps = [tf_keras.Input((4, 4, 8)), tf_keras.Input((2, 2, 6))]
    return tf_keras.Model(
        maps, list(ConvolutionalHead(ConvolutionalHeadOptions(**options))(maps, LAYERS, OUTPUTS))
    )


def test_every_map_has_its_own_predictors_and_anchors():
    network = _network(class_prediction_bias_init=-2.0)
    codes, logits = network([tf.zeros([2, 4, 4, 8]), tf.zeros([2, 2, 2, 6])])
    assert codes.shape == (2, 3 * 16 + 2 * 4, 4)
    assert logits.shape == (2, 3 * 16 + 2 * 4, 5)
    np.testing.assert_array_equal(codes, 0.0)
    np.testing.assert_array_equal(logits, -2.0)
    kernels = {weight.name: tuple(weight.shape) for weight in network.weights if "kernel" in weight.name}
    assert kernels == {
        "box_head_0/kernel:0": (1, 1, 8, 12),
        "box_head_1/kernel:0": (1, 1, 6, 8),
        "class_head_0/kernel:0": (1, 1, 8, 15),
        "class_head_1/kernel:0": (1, 1, 6, 10),
    }


def test_layers_before_the_predictor_are_between_min_and_max_depth():
    network = _network(num_layers_before_predictor=2, min_depth=7, max_depth=7, kernel_size=3)
    assert network.get_layer("head_shared_1_1").filters == 7
    assert network.get_layer("class_head_0").kernel.shape == (3, 3, 7, 15)
    names = {layer.name for layer in _network(num_layers_before_predictor=2).layers}
    assert not any(name.startswith("head_shared") for name in names)


def test_dropout_acts_on_classes_in_training_only():
    network = _network(use_dropout=True, dropout_keep_probability=0.5)
    features = [tf.ones([1, 4, 4, 8]), tf.ones([1, 2, 2, 6])]
    np.testing.assert_array_equal(network(features)[0], network(features, training=True)[0])
    assert not np.allclose(network(features)[1], network(features, training=True)[1])
