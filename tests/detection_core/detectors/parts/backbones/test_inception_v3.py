import numpy as np
import tf_keras

from detection_core.detectors.parts.backbones.inception_v3 import inception_v3
from detection_core.detectors.parts.backbones.mobilenet import MobileNetOptions
from detection_core.detectors.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams
from detection_core.detectors.parts.layers.layer_names import parse_layer_name
from detection_core.detectors.parts.layers.network_layers import NetworkLayers

SIDE = 75


def _number(layer) -> tuple[int, ...]:
    """Place of a layer among those of its class, in the order in which Keras made them."""
    return (int("0" + layer.name.rpartition("_")[2].removeprefix("conv2d").removeprefix("normalization")),)


def _ours(layer) -> tuple[object, ...]:
    name = parse_layer_name(layer.name)
    return name.part == "backbone_mixed", name.indices


def test_features_are_those_of_keras_classifier_with_the_same_weights():
    norm = BatchNormOptions(epsilon=0.001, scale=False)
    inputs = tf_keras.Input((SIDE, SIDE, 3))
    layers = NetworkLayers(hyperparams=LayerHyperparams(batch_norm=norm), seed=None)
    ends = inception_v3(inputs, layers, MobileNetOptions())
    network = tf_keras.Model(inputs, list(ends.levels.values()))
    tf_keras.backend.clear_session()
    peer = tf_keras.applications.InceptionV3(include_top=False, weights=None, input_shape=(SIDE, SIDE, 3))
    assert network.count_params() == peer.count_params()
    rng = np.random.default_rng(0)
    for kind in (tf_keras.layers.Conv2D, tf_keras.layers.BatchNormalization):
        pair = [
            sorted((la for la in model.layers if isinstance(la, kind)), key=key)
            for model, key in ((network, _ours), (peer, _number))
        ]
        for mine, theirs in zip(*pair, strict=True):
            values = [
                rng.uniform(0.5, 1.5, v.shape)
                if "variance" in v.name
                else rng.normal(0, 1.5 / np.sqrt(max(np.prod(v.shape[:-1]), 25)), v.shape)
                for v in theirs.weights
            ]
            mine.set_weights(values)
            theirs.set_weights(values)
    pixels = rng.uniform(-1, 1, (1, SIDE, SIDE, 3)).astype(np.float32)
    middle = [peer.get_layer(name).output for name in ("mixed2", "mixed7", "mixed10")]
    expected = tf_keras.Model(peer.inputs, middle)(pixels)
    for ours, theirs in zip(network(pixels), expected, strict=True):
        assert theirs.numpy().std() > 0.01
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())
