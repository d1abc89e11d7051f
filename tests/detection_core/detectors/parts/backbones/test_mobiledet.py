import math

import pytest
import tf_keras

from detection_core.detectors.parts.backbones.mobiledet import (
    ARCHITECTURES,
    DEFAULT_HYPERPARAMS,
    _depthwise_initializer,
    _rounded,
    mobiledet,
)
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from tests.support.cases import cases

# Channels of the maps of stride 16 and 32, as the Object Detection API's own test expects them.
MAPS = {"cpu": (72, 144), "dsp": (144, 240), "edgetpu": (96, 384), "gpu": (128, 384)}


@cases(*ARCHITECTURES)
def test_maps_and_shortcuts(*, hardware):
    inputs = tf_keras.Input((128, 64, 3))
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS, seed=None)
    ends = mobiledet(inputs, layers, hardware)
    fine, coarse = MAPS[hardware]
    assert (ends.levels[4].shape, ends.levels[5].shape) == ((None, 8, 4, fine), (None, 4, 2, coarse))
    assert sorted(ends.levels) == [1, 2, 3, 4, 5]
    names = [layer.name for layer in tf_keras.Model(inputs, ends.levels[5]).layers]
    blocks = ARCHITECTURES[hardware].blocks
    added = {int(name.split("_")[2]) for name in names if name.endswith("_add")}
    assert added == {index for index, block in enumerate(blocks) if block.shortcut}
    assert any(name.endswith("_gate") for name in names) == (hardware == "cpu")


def test_channels_are_rounded_to_the_nearest_multiple_of_8():
    assert [_rounded(value) for value in (2, 8 * 0.75, 16 * 0.75, 20, 100)] == [8, 8, 16, 24, 104]


def test_depthwise_kernels_are_drawn_for_the_values_that_they_sum():
    drawn = _depthwise_initializer(5).build(0, "w")((5, 5, 4096, 1)).numpy()
    assert drawn.std() == pytest.approx(math.sqrt(2 / 25), rel=0.02)
