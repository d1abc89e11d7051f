"""MobileNets, MobileDets and ResNets; backbones with separate goldens have files in `backbones`."""

import functools
import itertools
import math

import numpy as np
import pytest
import tf_keras

from detection_core.parts.backbones import inception, mobilenet
from detection_core.parts.backbones import mobiledet as mobiledets
from detection_core.parts.backbones import resnet_v1 as resnets
from detection_core.parts.backbones.bottlenecks import Bottleneck, BottleneckBuilder
from detection_core.parts.backbones.inception import inception_v2, inception_v3
from detection_core.parts.backbones.mobiledet import ARCHITECTURES, mobiledet
from detection_core.parts.backbones.mobilenet_v3 import (
    BLOCKS,
    EDGETPU_BLOCKS,
    MobileNetV3Options,
    mobilenet_edgetpu,
    mobilenet_v3,
)
from detection_core.parts.backbones.resnet_v1 import ResNetOptions, resnet_v1
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, ChannelOptions, LayerHyperparams
from detection_core.parts.layers.layer_names import parse_layer_name
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.tasks.describe import count_flops
from tests.support.cases import cases


def _built(build, options, size=(64, 96), hyperparams=mobilenet.DEFAULT_HYPERPARAMS, **settings):
    """The network up to level 5, its ends, and what made its layers."""
    inputs = tf_keras.Input((*size, 3))
    layers = NetworkLayers(hyperparams=hyperparams, seed=None, **settings)
    ends = build(inputs, layers, options)
    return tf_keras.Model(inputs, ends.levels[5]), ends, layers


def _v1(size=(64, 96), explicit_padding=False, narrow_top=False, **options):
    build = functools.partial(mobilenet.mobilenet_v1, narrow_top=narrow_top)
    return _built(build, ChannelOptions(**options), size, explicit_padding=explicit_padding)


def _v2(**options):
    return _built(mobilenet.mobilenet_v2, ChannelOptions(**options))


def _v3(side=64, **options):
    return _built(mobilenet_v3, MobileNetV3Options(**options), (side, side))


def _shapes(ends):
    return {level: tuple(features.shape[1:]) for level, features in ends.levels.items()}


def _convolutions(network):
    """Convolutions that are not depthwise."""
    kind, depthwise = tf_keras.layers.Conv2D, tf_keras.layers.DepthwiseConv2D
    return [x for x in network.layers if isinstance(x, kind) and not isinstance(x, depthwise)]


def _added(network):
    """Numbers of the blocks whose input is added to what they give."""
    return {int(x.name.split("_")[2]) for x in network.layers if x.name.endswith("_add")}


# Parameters of the published networks of Keras without their classifiers.
@cases((1.0, 3_228_864), (0.75, 1_832_976), (0.5, 829_536), (0.25, 218_544))
def test_v1_has_the_parameters_of_the_published_networks(*, multiplier, parameters):
    assert _v1(depth_multiplier=multiplier, min_depth=1)[0].count_params() == parameters


def test_v1_has_strides_and_channels_and_a_narrow_top_changes_the_last_two_blocks_only():
    full, ends, _ = _v1()
    sizes = [(32, 48, 64), (16, 24, 128), (8, 12, 256), (4, 6, 512), (2, 3, 1024)]
    assert _shapes(ends) == dict(enumerate(sizes, start=1))
    narrow = _v1(narrow_top=True)[0]
    names = [f"backbone_separable_{index}_pointwise" for index in range(1, 14)]
    wide, found = ([network.get_layer(name).filters for name in names] for network in (full, narrow))
    assert found == [*wide[:11], 512, 256]
    assert narrow.output_shape[1:] == (2, 3, 256)


def test_v1_has_a_lower_bound_of_channels_and_every_kernel_is_regularized():
    network, _, layers = _v1(depth_multiplier=0.25, min_depth=20)
    assert [layer.filters for layer in _convolutions(network)][:4] == [20, 20, 32, 32]
    kernels = {weight.name.split(":")[0] for weight in network.weights if "kernel" in weight.name}
    assert set(layers.regularizers) == kernels and len(kernels) == 27
    assert not any("bias" in weight.name for weight in network.weights)
    plain, padded = (_v1((90, 65), explicit_padding=explicit)[1] for explicit in (False, True))
    assert _shapes(plain) == _shapes(padded)


def test_v2_has_strides_and_channels_in_multiples_of_eight_not_far_below():
    wanted = {8.4: 8, 11.2: 16, 5: 8, 32: 32, 19.9: 24, 18: 24}
    assert {channels: mobilenet.round_channels(channels) for channels in wanted} == wanted
    network, ends, _ = _v2()
    shapes = {2: (16, 24, 24), 3: (8, 12, 32), 4: (4, 6, 96), 5: (2, 3, 1280)}
    assert _shapes(ends).items() >= shapes.items()
    assert tuple(ends.expanded[4].shape[1:]) == (4, 6, 576)
    assert len(_added(network)) == 10


def test_min_depth_of_v2_holds_for_all_but_expansions_and_its_last_layer_never_grows():
    network, ends, _ = _v2(depth_multiplier=0.35, min_depth=16)
    assert {layer.name for layer in _convolutions(network) if layer.filters < 16} == set()
    assert ends.levels[5].shape[-1] == 448
    # 24 * 0.35 rounds to 8 channels: only min_depth makes the second block's input and output equal.
    assert 2 not in _added(network)
    for multiplier, channels in ((0.5, 640), (1.4, 1280)):
        assert _v2(depth_multiplier=multiplier)[1].levels[5].shape[-1] == channels


# Millions of parameters and multiply-adds of classifiers of 1001 classes, 224 x 224, and channels of the
# layer before the last: the paper's table 3, and for the minimalistic large one the list of the slim library.
@cases(("large", False, 5.4, 219, 1280), ("large", True, 3.9, 209, 1280), ("small", False, 2.5, 56, 1024))
def test_a_v3_has_the_paper_s_parameters_and_multiply_adds(
    *, size, minimalistic, parameters, multiply_adds, hidden
):
    network = _v3(224, size=size, minimalistic=minimalistic, narrow_top=False)[0]
    top = network.output.shape[-1] * hidden + hidden * 1001
    found = sum(int(np.prod(v.shape)) for v in network.trainable_variables) + top + hidden + 1001
    assert found / 1e6 == pytest.approx(parameters, rel=0.02)
    assert (count_flops(network) / 2 + top) / 1e6 == pytest.approx(multiply_adds, rel=0.012)


@cases(("large", False), ("small", False), ("small", True))
def test_features_of_v3_are_those_of_keras_classifier_with_the_same_weights(*, size, minimalistic):
    network = _v3(size=size, minimalistic=minimalistic, narrow_top=False)[0]
    options = {"minimalistic": minimalistic, "include_top": False, "include_preprocessing": False}
    make = getattr(tf_keras.applications, f"MobileNetV3{size.capitalize()}")
    peer = make(input_shape=(64, 64, 3), weights=None, **options)
    rng = np.random.default_rng(0)
    values = [
        rng.uniform(0.5, 1.5, v.shape) if "variance" in v.name else rng.normal(0, 0.2, v.shape)
        for v in peer.weights
    ]
    peer.set_weights(values)
    network.set_weights(values)
    pixels = rng.uniform(-1, 1, (2, 64, 64, 3)).astype(np.float32)
    expected = peer(pixels).numpy()
    assert expected.std() > 0.01
    np.testing.assert_allclose(network(pixels), expected, atol=1e-5 * np.abs(expected).max())


@cases(("large", 672, 480), ("small", 288, 288))
def test_a_v3_detector_takes_an_expansion_of_stride_16_and_half_the_channels_behind_it(
    *, size, expanded, final
):
    ends = _v3(size=size)[1]
    assert ends.expanded[4].shape == (None, 4, 4, expanded)
    assert ends.levels[5].shape == (None, 2, 2, final)
    assert sorted(ends.levels) == [1, 2, 3, 4, 5] and sorted(ends.expanded) == [1, 2, 3, 4]
    assert size in BLOCKS and len(BLOCKS) == 2
    plain, full = (MobileNetV3Options(size=size, minimalistic=m).blocks for m in (True, False))
    for ours, theirs in itertools.zip_longest(plain, full):
        same = ("stride", "channels", "expansion")
        assert [getattr(ours, name) for name in same] == [getattr(theirs, name) for name in same]
        assert (ours.kernel_size, ours.gated, ours.activation) == (3, False, "relu")


def test_channels_of_v3_are_multiples_of_8_but_for_a_lower_bound():
    options = MobileNetV3Options(size="large", depth_multiplier=0.35, min_depth=12)
    assert [options.channels(nominal) for nominal in (16, 24, 40, 80)] == [12, 12, 16, 32]


def test_maps_of_edgetpu_are_those_that_the_object_detection_api_s_own_test_expects():
    network, ends, _ = _built(mobilenet_edgetpu, ChannelOptions(min_depth=32), (128, 128))
    assert ends.expanded[4].shape == (None, 8, 8, 384)
    assert ends.levels[5].shape == (None, 4, 4, 192)
    assert _added(network) == set(range(22)) - {0, 1, 5, 9, 13, 17, 21}
    assert sum(block.kind == "fused" for block in EDGETPU_BLOCKS) == 9
    assert "backbone_block_0_expand" not in {layer.name for layer in network.layers}


# Channels of the maps of stride 16 and 32, as the Object Detection API's own test expects them.
@cases(("cpu", 72, 144), ("dsp", 144, 240), ("edgetpu", 96, 384), ("gpu", 128, 384))
def test_maps_and_shortcuts_of_mobiledets(*, hardware, fine, coarse):
    network, ends, _ = _built(mobiledet, hardware, (128, 64), mobiledets.DEFAULT_HYPERPARAMS)
    assert (ends.levels[4].shape, ends.levels[5].shape) == ((None, 8, 4, fine), (None, 4, 2, coarse))
    assert sorted(ends.levels) == [1, 2, 3, 4, 5]
    blocks = ARCHITECTURES[hardware].blocks
    assert _added(network) == {index for index, block in enumerate(blocks) if block.shortcut}
    assert any(layer.name.endswith("_gate") for layer in network.layers) == (hardware == "cpu")
    assert set(ARCHITECTURES) == {"cpu", "dsp", "edgetpu", "gpu"}


def test_channels_of_mobiledets_are_rounded_and_kernels_drawn_for_the_values_that_they_sum():
    found = [mobiledets._rounded(value) for value in (2, 8 * 0.75, 16 * 0.75, 20, 100)]
    assert found == [8, 8, 16, 24, 104]
    drawn = mobiledets._depthwise_initializer(5).build(0, "w")((5, 5, 4096, 1)).numpy()
    assert drawn.std() == pytest.approx(math.sqrt(2 / 25), rel=0.02)


def test_a_resnet_has_strides_channels_and_layers_and_follows_multiplier_and_lower_bound():
    def resnet(**options):
        options = ResNetOptions(num_layers=50, **options)
        return _built(resnet_v1, options, hyperparams=resnets.DEFAULT_HYPERPARAMS)[:2]

    network, ends = resnet()
    assert _shapes(ends) == {2: (16, 24, 256), 3: (8, 12, 512), 4: (4, 6, 1024), 5: (2, 3, 2048)}
    # The 50th layer of the paper is the classifier's, and each stage has a shortcut that it does not count.
    assert len(_convolutions(network)) == 49 + 4
    assert not any(layer.use_bias for layer in _convolutions(network))
    network, ends = resnet(depth_multiplier=0.25, min_depth=24)
    assert network.get_layer("backbone_stem").filters == 24
    assert [shape[-1] for shape in _shapes(ends).values()] == [64, 128, 256, 512]


INVERTED, FUSED, TUCKER = ({"kind": kind, "kernel_size": 5} for kind in ("inverted", "fused", "tucker"))


def _block(**options):
    """Return the network of a block on 16 channels, and what it gives."""
    layers = NetworkLayers(hyperparams=mobilenet.DEFAULT_HYPERPARAMS)
    builder = BottleneckBuilder(
        layers=layers, channels=lambda nominal: nominal, rounded=mobilenet.round_channels
    )
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
    inner = 24 if options["kind"] == "tucker" else mobilenet.round_channels(16 * options["expansion"])
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


SPLIT = (inception.conv("Conv2d_0b_1x3", 5), inception.conv("Conv2d_0c_3x1", 7))
MODULE = (
    (inception.conv("Conv2d_0a_1x1", 4),),
    (inception.Pooling(average=True), inception.conv("Conv2d_0b_1x1", 6, deviation=0.5), SPLIT),
)


def test_branches_are_joined_in_their_order():
    inputs = tf_keras.Input((9, 9, 3))
    layers = NetworkLayers(hyperparams=mobilenet.DEFAULT_HYPERPARAMS)
    doubled = ChannelOptions(depth_multiplier=2.0, min_depth=1)
    outputs = inception.InceptionBuilder(layers, doubled).module(inputs, 3, MODULE)
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
    assert inception.scopes({"Mixed_5b": MODULE}) == {
        (0, 0, 0): "Mixed_5b/Branch_0/Conv2d_0a_1x1",
        (0, 1, 0): "Mixed_5b/Branch_1/Conv2d_0b_1x1",
        (0, 1, 1): "Mixed_5b/Branch_1/Conv2d_0b_1x3",
        (0, 1, 2): "Mixed_5b/Branch_1/Conv2d_0c_3x1",
    }
    assert inception.convolutions(MODULE[1])[1:] == list(SPLIT)


def test_modules_have_the_paper_s_channels_and_parameters():
    network, ends, _ = _built(inception_v2, ChannelOptions(), (224, 224))
    found = [network.get_layer(f"backbone_mixed_{number}").output.shape[-1] for number in range(10)]
    # Modules 3b to 5c, https://arxiv.org/abs/1502.03167, figure 5, as the slim library has them.
    assert found == [256, 320, *[576] * 5, *[1024] * 3]
    sizes = [(112, 64), (56, 192), (28, 320), (14, 576), (7, 1024)]
    assert _shapes(ends) == {level: (side, side, depth) for level, (side, depth) in enumerate(sizes, 1)}
    assert network.get_layer("backbone_stem_depthwise").depthwise_kernel.shape == (7, 7, 3, 8)
    # 11.2 million with a classifier of 1001 classes.
    weights = sum(w.shape.num_elements() for w in network.weights if "kernel" in w.name)
    assert round((weights + 1024 * 1001) / 1e6, 1) == 11.2


SIDE = 75


def _number(layer) -> tuple[int, ...]:
    """Place of a layer among those of its class, in the order in which Keras made them."""
    return (int("0" + layer.name.rpartition("_")[2].removeprefix("conv2d").removeprefix("normalization")),)


def _ours(layer) -> tuple[object, ...]:
    name = parse_layer_name(layer.name)
    return name.part == "backbone_mixed", name.indices


def test_features_are_those_of_keras_classifier_with_the_same_weights():
    norms = LayerHyperparams(batch_norm=BatchNormOptions(epsilon=0.001, scale=False))
    network, ends, _ = _built(inception_v3, ChannelOptions(), (SIDE, SIDE), norms)
    network = tf_keras.Model(network.inputs, list(ends.levels.values()))
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
