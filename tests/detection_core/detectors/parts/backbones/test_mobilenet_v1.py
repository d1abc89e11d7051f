import tf_keras

from detection_core.detectors.parts.backbones.mobilenet import DEFAULT_HYPERPARAMS
from detection_core.detectors.parts.backbones.mobilenet_v1 import (
    MobileNetV1Options,
    mobilenet_v1,
)
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from tests.support.cases import cases


def _ends(size=(64, 96), explicit_padding=False, **options):
    inputs = tf_keras.Input((*size, 3))
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS, explicit_padding=explicit_padding)
    ends = mobilenet_v1(inputs, layers, MobileNetV1Options(**options))
    return tf_keras.Model(inputs, ends.levels[5]), ends, layers


# Parameters of the published networks of Keras without their classifiers.
@cases((1.0, 3_228_864), (0.75, 1_832_976), (0.5, 829_536), (0.25, 218_544))
def test_parameters_are_those_of_the_published_networks(*, multiplier, parameters):
    assert _ends(depth_multiplier=multiplier, min_depth=1)[0].count_params() == parameters


def test_strides_and_channels():
    _, ends, _ = _ends()
    assert {name: tuple(features.shape[1:]) for name, features in ends.levels.items()} == {
        1: (32, 48, 64),
        2: (16, 24, 128),
        3: (8, 12, 256),
        4: (4, 6, 512),
        5: (2, 3, 1024),
    }


def test_narrow_top_changes_the_last_two_blocks_only():
    full, narrow = (_ends(narrow_top=top)[0] for top in (False, True))
    filters = [
        [network.get_layer(f"backbone_separable_{index}_pointwise").filters for index in range(1, 14)]
        for network in (full, narrow)
    ]
    assert filters[1] == [*filters[0][:11], 512, 256]
    assert narrow.output_shape[1:] == (2, 3, 256)


def test_channels_have_a_lower_bound():
    network, _, _ = _ends(depth_multiplier=0.25, min_depth=20)
    filters = [
        layer.filters
        for layer in network.layers
        if isinstance(layer, tf_keras.layers.Conv2D)
        and not isinstance(layer, tf_keras.layers.DepthwiseConv2D)
    ]
    assert filters[:4] == [20, 20, 32, 32]


def test_explicit_padding_keeps_the_sizes_of_every_level():
    plain, padded = (_ends((90, 65), explicit_padding=explicit)[1] for explicit in (False, True))
    assert [f.shape for f in plain.levels.values()] == [f.shape for f in padded.levels.values()]


def test_every_kernel_is_regularized_and_no_convolution_has_a_bias():
    network, _, layers = _ends(depth_multiplier=0.25)
    kernels = {weight.name.split(":")[0] for weight in network.weights if "kernel" in weight.name}
    assert set(layers.regularizers) == kernels
    assert len(kernels) == 27
    assert not any("bias" in weight.name for weight in network.weights)
