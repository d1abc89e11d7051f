import pytest
import tf_keras

from detection_core.detectors.parts.backbones.inception import (
    InceptionBuilder,
    Pooling,
    conv,
    convolutions,
    scopes,
)
from detection_core.detectors.parts.backbones.mobilenet import DEFAULT_HYPERPARAMS
from detection_core.detectors.parts.layers.network_layers import NetworkLayers

SPLIT = (conv("Conv2d_0b_1x3", 5), conv("Conv2d_0c_3x1", 7))
MODULE = (
    (conv("Conv2d_0a_1x1", 4),),
    (Pooling(average=True), conv("Conv2d_0b_1x1", 6, deviation=0.5), SPLIT),
)


def test_branches_are_joined_in_their_order():
    inputs = tf_keras.Input((9, 9, 3))
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS)
    outputs = InceptionBuilder(layers, lambda nominal: 2 * nominal).module(inputs, 3, MODULE)
    network = tf_keras.Model(inputs, outputs)
    assert outputs.shape == (None, 9, 9, 2 * (4 + 5 + 7))
    kernels = {
        layer.name: layer.kernel_size for layer in network.layers if isinstance(layer, tf_keras.layers.Conv2D)
    }
    assert kernels == {
        "backbone_mixed_3_0_0": (1, 1),
        "backbone_mixed_3_1_0": (1, 1),
        "backbone_mixed_3_1_1": (1, 3),
        "backbone_mixed_3_1_2": (3, 1),
    }
    drawn = network.get_layer("backbone_mixed_3_1_0").kernel.numpy()
    assert drawn.std() == pytest.approx(0.5 * 0.88, rel=0.3)


def test_scopes_are_those_of_branches_and_convolutions():
    assert scopes({"Mixed_5b": MODULE}) == {
        (0, 0, 0): "Mixed_5b/Branch_0/Conv2d_0a_1x1",
        (0, 1, 0): "Mixed_5b/Branch_1/Conv2d_0b_1x1",
        (0, 1, 1): "Mixed_5b/Branch_1/Conv2d_0b_1x3",
        (0, 1, 2): "Mixed_5b/Branch_1/Conv2d_0c_3x1",
    }
    assert convolutions(MODULE[1])[1:] == list(SPLIT)
