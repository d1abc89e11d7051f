import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.parts.backbones.efficientnet import (
    DEFAULT_HYPERPARAMS,
    L2,
    SCALES,
    EfficientNetOptions,
    _blocks,
    efficientnet,
)
from detection_core.parts.layers.network_layers import NetworkLayers
from tests.support.cases import cases
from tests.support.efficientdet_goldens import read_json


def _build(**options):
    inputs = tf_keras.Input((64, 96, 3))
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS)
    ends = efficientnet(inputs, layers, EfficientNetOptions(**options))
    return tf_keras.Model(inputs, list(ends.levels.values())), ends, layers


@pytest.fixture(scope="module")
def b0():
    return _build(version=0)


def test_strides_channels_and_regularizers_of_b0(b0):
    shapes = {name: tuple(features.shape[1:]) for name, features in b0[1].levels.items()}
    assert shapes == {1: (32, 48, 16), 2: (16, 24, 24), 3: (8, 12, 40), 4: (4, 6, 112), 5: (2, 3, 320)}
    regularizers = b0[2].regularizers
    for key in ("backbone_block_1_0_gate_reduce/bias", "backbone_block_1_0_project/kernel"):
        assert regularizers[key] == DEFAULT_HYPERPARAMS.regularizer
    assert not [key for key in regularizers if "depthwise" in key]


@cases((0, 16, 32, 320), (1, 23, 32, 320), (4, 32, 48, 448), (7, 55, 64, 640))
def test_versions_grow_in_blocks_and_channels(*, version, blocks, stem, last):
    assert sorted(SCALES) == [*range(9), L2]  # as in the paper
    options = EfficientNetOptions(version=version)
    found = _blocks(options)
    assert (len(found), options.channels(32), found[6, 0].channels) == (blocks, stem, last)


def test_branches_are_dropped_for_whole_images_with_a_probability_that_grows_with_depth(b0):
    drops = {layer.name: layer for layer in b0[0].layers if isinstance(layer, tf_keras.layers.Dropout)}
    assert len(drops) == 9
    assert drops["backbone_block_1_1_drop"].rate == pytest.approx(0.2 * 2 / 16)
    drop = drops["backbone_block_5_3_drop"]
    assert drop.rate == pytest.approx(0.2 * 14 / 16)
    tf_keras.utils.set_random_seed(0)
    kept = drop(tf.ones([64, 2, 3, 4]), training=True).numpy().reshape(64, -1)
    assert (kept == kept[:, :1]).all()
    np.testing.assert_allclose(np.unique(kept), [0.0, 1 / 0.825], rtol=1e-6)


def test_nothing_is_built_behind_the_coarsest_level_and_lite_has_no_gates():
    network, ends, layers = _build(version=0, lite=True, max_level=3)
    assert list(ends.levels) == [1, 2, 3]
    names = {layer.name for layer in network.layers}
    assert {key.split("/")[0] for key in layers.regularizers} <= names
    assert not any("gate" in name for name in names)


@cases(*([f"b{version}" for version in range(8)] + [f"lite{i}" for i in range(5)]))
def test_blocks_are_those_of_the_reference(*, name):
    options = EfficientNetOptions(version=int(name[-1]), lite=name.startswith("lite"), whole_stages=True)
    table = read_json("hparams")["backbones"]["table"][f"efficientnet-{name}"]
    found = [[b.kernel_size, b.channels, b.expansion, b.stride] for b in _blocks(options).values()]
    wanted = [[kernel, after, expand, strides[0]] for kernel, _, after, expand, strides in table["blocks"]]
    assert found == wanted
    assert options.stem_channels == table["stem_filters"]


def test_levels_of_whole_stages_are_what_stages_end_with():
    options = EfficientNetOptions(version=1, whole_stages=True)
    ends = {position: options.level(*position) for position in _blocks(options) if options.level(*position)}
    assert ends == {(0, 1): 1, (1, 2): 2, (2, 2): 3, (4, 3): 4, (6, 1): 5}
