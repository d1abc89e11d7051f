"""Shapes, strides and dilations of Inception-ResNet v2, of one block each."""

import numpy as np
import tf_keras

from detection_core.parts.backbones.inception_resnet_v2 import (
    DEFAULT_HYPERPARAMS,
    proposal_features,
    region_features,
)
from detection_core.parts.layers.network_layers import NetworkLayers

ONE_EACH = (1, 1, 1)


def test_its_features_have_the_stride_that_is_asked_for():
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS, seed=None)
    for stride in (8, 16):
        images = tf_keras.Input((65, 96, 3))
        network = tf_keras.Model(images, proposal_features(images, layers, stride, ONE_EACH))
        assert network.output_shape[1:] == (-(-65 // stride), 96 // stride, 1088)
        dilation = 2 if stride == 8 else 1
        assert network.get_layer("backbone_middle_0_1_1").dilation_rate == (dilation, dilation)
        assert network.get_layer("backbone_stem_4").dilation_rate == (1, 1)
    regions = tf_keras.Input((17, 17, 1088))
    features = region_features(regions, layers, ONE_EACH)
    assert features.shape[1:] == (9, 9, 1536)


def test_a_block_adds_a_part_of_its_branches():
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS, seed=1)
    images = tf_keras.Input((32, 32, 3))
    network = tf_keras.Model(images, proposal_features(images, layers, 16, ONE_EACH))
    places = [network.get_layer(f"backbone_{name}").output for name in (
        "mixed_1_join", "middle_0_project", "middle_0_act"
    )]  # fmt: skip
    pixels = np.random.RandomState(0).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32)
    given, projected, found = tf_keras.Model(images, places)(pixels)
    # float32, so that only rounding differs
    np.testing.assert_allclose(found, np.maximum(given + 0.1 * projected, 0), rtol=1e-5, atol=1e-6)
