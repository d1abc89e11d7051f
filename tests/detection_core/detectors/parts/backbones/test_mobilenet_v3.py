import itertools

import numpy as np
import pytest
import tf_keras

from detection_core.detectors.parts.backbones.mobilenet import DEFAULT_HYPERPARAMS
from detection_core.detectors.parts.backbones.mobilenet_v3 import BLOCKS, MobileNetV3Options, mobilenet_v3
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from detection_core.tasks.describe import count_flops
from tests.support.cases import cases

# Millions of parameters and multiply-adds of classifiers of 1001 classes, 224 x 224, and channels of the
# layer before the last: the paper's table 3, and for the minimalistic large one the list of the slim library.
CLASSIFIERS = {
    ("large", False): (5.4, 219, 1280),
    ("large", True): (3.9, 209, 1280),
    ("small", False): (2.5, 56, 1024),
}


def _build(side=64, **options):
    inputs = tf_keras.Input((side, side, 3))
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS, seed=None)
    ends = mobilenet_v3(inputs, layers, MobileNetV3Options(**options))
    return tf_keras.Model(inputs, ends.levels[5]), ends


@cases(*CLASSIFIERS)
def test_a_classifier_has_the_paper_s_parameters_and_multiply_adds(*, size, minimalistic):
    network, _ = _build(224, size=size, minimalistic=minimalistic, narrow_top=False)
    parameters, multiply_adds, hidden = CLASSIFIERS[size, minimalistic]
    top = network.output.shape[-1] * hidden + hidden * 1001
    found = sum(int(np.prod(v.shape)) for v in network.trainable_variables) + top + hidden + 1001
    assert found / 1e6 == pytest.approx(parameters, rel=0.02)
    assert (count_flops(network) / 2 + top) / 1e6 == pytest.approx(multiply_adds, rel=0.012)


@cases(("large", False), ("small", False), ("small", True))
def test_features_are_those_of_keras_classifier_with_the_same_weights(*, size, minimalistic):
    network, _ = _build(size=size, minimalistic=minimalistic, narrow_top=False)
    make = getattr(tf_keras.applications, f"MobileNetV3{size.capitalize()}")
    peer = make(
        input_shape=(64, 64, 3),
        minimalistic=minimalistic,
        include_top=False,
        weights=None,
        include_preprocessing=False,
    )
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
def test_a_detector_takes_an_expansion_of_stride_16_and_half_the_channels_behind_it(*, size, expanded, final):
    _, ends = _build(size=size)
    assert ends.expanded[4].shape == (None, 4, 4, expanded)
    assert ends.levels[5].shape == (None, 2, 2, final)
    assert sorted(ends.levels) == [1, 2, 3, 4, 5] and sorted(ends.expanded) == [1, 2, 3, 4]


def test_channels_are_multiples_of_8_but_for_a_lower_bound():
    options = MobileNetV3Options(size="large", depth_multiplier=0.35, min_depth=12)
    assert [options.channels(nominal) for nominal in (16, 24, 40, 80)] == [12, 12, 16, 32]


@cases(*BLOCKS)
def test_the_minimalistic_network_has_the_strides_and_channels_of_the_other(*, size):
    plain, full = (MobileNetV3Options(size=size, minimalistic=m).blocks for m in (True, False))
    for ours, theirs in itertools.zip_longest(plain, full):
        assert (ours.stride, ours.channels, ours.expansion) == (
            theirs.stride,
            theirs.channels,
            theirs.expansion,
        )
        assert (ours.kernel_size, ours.gated, ours.activation) == (3, False, "relu")
