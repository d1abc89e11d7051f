import tf_keras

from detection_core.detectors.parts.backbones.mobilenet import DEFAULT_HYPERPARAMS, MobileNetOptions
from detection_core.detectors.parts.backbones.mobilenet_v2 import (
    mobilenet_v2,
    round_channels,
)
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from tests.support.cases import cases


@cases((8.4, 8), (11.2, 16), (5, 8), (32, 32), (19.9, 24), (18, 24))
def test_channels_are_multiples_of_eight_not_far_below(*, channels, wanted):
    assert round_channels(channels) == wanted


def _ends(**options):
    inputs = tf_keras.Input((64, 96, 3))
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS)
    ends = mobilenet_v2(inputs, layers, MobileNetOptions(**options))
    return tf_keras.Model(inputs, ends.levels[5]), ends


def test_strides_and_channels_of_the_full_backbone():
    network, ends = _ends()
    shapes = {name: tuple(features.shape[1:]) for name, features in ends.levels.items()}
    assert shapes[2] == (16, 24, 24)
    assert shapes[3] == (8, 12, 32)
    assert shapes[4] == (4, 6, 96)
    assert tuple(ends.expanded[4].shape[1:]) == (4, 6, 576)
    assert shapes[5] == (2, 3, 1280)
    assert sum(layer.name.endswith("_add") for layer in network.layers) == 10


def test_min_depth_holds_for_all_but_expansions_and_gives_no_shortcut():
    network, ends = _ends(depth_multiplier=0.35, min_depth=16)
    convolutions = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.Conv2D)]
    narrow = {
        layer.name
        for layer in convolutions
        if not isinstance(layer, tf_keras.layers.DepthwiseConv2D) and layer.filters < 16
    }
    assert narrow == set()
    assert ends.levels[5].shape[-1] == 448
    # 24 * 0.35 rounds to 8 channels: only min_depth makes the second block's input and output equal.
    assert "backbone_block_2_add" not in {layer.name for layer in network.layers}


@cases((0.5, 640), (1.0, 1280), (1.4, 1280))
def test_the_last_layer_never_grows(*, multiplier, channels):
    assert _ends(depth_multiplier=multiplier)[1].levels[5].shape[-1] == channels
