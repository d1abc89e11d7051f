import itertools

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from detection_core.detectors.parts.necks.bifpn import BifpnOptions, bidirectional_pyramid
from tests.support.cases import cases

HYPERPARAMS = LayerHyperparams(batch_norm=BatchNormOptions(), activation="swish", force_use_bias=True)


def _network(levels, **options):
    layers = NetworkLayers(hyperparams=HYPERPARAMS)
    maps = bidirectional_pyramid(levels, layers, BifpnOptions(**options))
    return tf_keras.Model(list(levels.values()), maps)


@cases(4, 5, 7)
def test_pyramid_of_an_input_whose_sizes_are_no_powers_of_two(*, max_level):
    levels = {3: tf_keras.Input((19, 13, 8)), 4: tf_keras.Input((10, 7, 12)), 5: tf_keras.Input((5, 4, 16))}
    levels = {level: features for level, features in levels.items() if level <= max_level}
    network = _network(levels, channels=6, iterations=2, max_level=max_level)
    sizes = [(19, 13), (10, 7), (5, 4), (3, 2), (2, 1)]
    wanted = [(*size, 6) for size in sizes[: max_level - 2]]
    assert [tuple(features.shape[1:]) for features in network.outputs] == wanted


def test_a_pass_adds_two_nodes_a_level_but_for_the_ends():
    levels = {level: tf_keras.Input((64 >> level, 64 >> level, 8)) for level in (3, 4, 5)}
    network = _network(levels, channels=6, iterations=3)
    # Two nodes that start levels 6 and 7, and eight in each pass.
    combines = [layer.name for layer in network.layers if layer.name.endswith("_combine")]
    assert sorted(combines, key=lambda name: int(name.split("_")[1])) == [
        f"bifpn_{node}_combine" for node in range(2, 26)
    ]


def test_maps_that_have_the_channels_are_not_projected():
    levels = {3: tf_keras.Input((4, 4, 6)), 4: tf_keras.Input((2, 2, 8))}
    network = _network(levels, channels=6, iterations=1, max_level=4, backbone_max_level=4)
    projections = {layer.name for layer in network.layers if "_input_" in layer.name}
    # Node 0 is on level 3 and takes level 4 from above, node 1 is on level 4.
    assert projections == {
        *("bifpn_0_input_1", "bifpn_0_input_1_bn"),
        *("bifpn_1_input_0", "bifpn_1_input_0_bn"),
    }


def test_first_node_adds_the_coarser_map_repeated_and_last_one_the_finer_map_pooled():
    levels = {3: tf_keras.Input((4, 4, 6)), 4: tf_keras.Input((2, 2, 6))}
    network = _network(
        levels, channels=6, iterations=1, max_level=4, backbone_max_level=4, combine_method="sum"
    )
    inner = tf_keras.Model(
        network.inputs, [network.get_layer(f"bifpn_{node}_combine").output for node in (0, 1)]
    )
    draw = np.random.default_rng(0)
    fine = draw.standard_normal((1, 4, 4, 6)).astype(np.float32)
    coarse = draw.standard_normal((1, 2, 2, 6)).astype(np.float32)
    down, up = inner([fine, coarse])
    np.testing.assert_allclose(down, fine + coarse.repeat(2, axis=1).repeat(2, axis=2), rtol=1e-6)
    finest = network([fine, coarse])[0]
    np.testing.assert_allclose(up, coarse + tf.nn.max_pool2d(finest, 3, 2, "SAME"), rtol=1e-6)


def test_a_node_activates_before_its_convolution_and_normalises_after_it():
    levels = {3: tf_keras.Input((4, 4, 6)), 4: tf_keras.Input((2, 2, 6))}
    network = _network(levels, channels=6, iterations=1, max_level=4, backbone_max_level=4)
    order = ["bifpn_0_combine", "bifpn_0_act", "bifpn_0_depthwise", "bifpn_0_pointwise", "bifpn_0_bn"]
    for before, after in itertools.pairwise(order):
        sources = network.get_layer(after).input
        sources = sources if isinstance(sources, list) else [sources]
        assert before in {source._keras_history.layer.name for source in sources}
    assert network.get_layer("bifpn_0_pointwise").use_bias
    assert not network.get_layer("bifpn_0_depthwise").use_bias
