import tf_keras

from detection_core.detectors.parts.backbones.bottlenecks import Bottleneck, BottleneckBuilder
from detection_core.detectors.parts.backbones.mobilenet import DEFAULT_HYPERPARAMS
from detection_core.detectors.parts.backbones.mobilenet_v2 import round_channels
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from tests.support.cases import cases

INVERTED, FUSED, TUCKER = ({"kind": kind, "kernel_size": 5} for kind in ("inverted", "fused", "tucker"))


def _block(**options):
    """Return the network of a block on 16 channels, and what it gives."""
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS)
    builder = BottleneckBuilder(layers, channels=lambda nominal: nominal, rounded=round_channels)
    inputs = tf_keras.Input((8, 8, 16))
    ends = builder.block(inputs, "backbone_block_0", Bottleneck(**options))
    return tf_keras.Model(inputs, list(ends))


@cases(
    ({**INVERTED, "expansion": 4}, {"expand": (1, 1, 16, 64), "depthwise": (5, 5, 64, 1)}),
    ({**INVERTED, "expansion": 1}, {"depthwise": (5, 5, 16, 1)}),
    ({**FUSED, "expansion": 4}, {"expand": (5, 5, 16, 64)}),
    ({**FUSED, "expansion": 1}, {}),
    ({**TUCKER, "ranks": (0.5, 0.75)}, {"reduce": (1, 1, 16, 8), "spatial": (5, 5, 8, 24)}),
)
def test_convolutions_of_a_block(*, options, kernels):
    network = _block(channels=32, stride=1, **options)
    found = {
        layer.name.removeprefix("backbone_block_0_"): tuple(layer.weights[0].shape)
        for layer in network.layers
        if isinstance(layer, tf_keras.layers.Conv2D | tf_keras.layers.DepthwiseConv2D)
    }
    inner = 24 if options["kind"] == "tucker" else round_channels(16 * options["expansion"])
    assert found == {**kernels, "project": (1, 1, inner, 32)}


@cases({**INVERTED, "expansion": 4}, {**FUSED, "expansion": 4}, TUCKER)
def test_a_stride_halves_the_map_and_only_equal_shapes_are_added(*, options):
    assert _block(channels=16, stride=2, **options).output[1].shape == (None, 4, 4, 16)
    added = {
        (channels, shortcut, stride): any(
            layer.name.endswith("_add")
            for layer in _block(channels=channels, shortcut=shortcut, stride=stride, **options).layers
        )
        for channels, shortcut, stride in ((16, True, 1), (16, False, 1), (24, True, 1), (16, True, 2))
    }
    assert [key for key, found in added.items() if found] == [(16, True, 1)]


def test_a_gate_has_a_quarter_of_the_channels_that_it_weighs():
    network = _block(channels=16, expansion=4, gated=True, activation="hswish")
    assert network.get_layer("backbone_block_0_gate_reduce").filters == 16
    assert network.get_layer("backbone_block_0_gate_reduce_act").activation.__name__ == "hard_swish"
