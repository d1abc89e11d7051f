"""Feature pyramids, extra layers and heads: shapes, how maps are combined, and what is shared."""

import itertools

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.parts import necks
from detection_core.parts.heads import (
    MOST_JOINED,
    ConvolutionalHead,
    HeadOutputs,
    WeightSharedHead,
    per_anchor,
)
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams, Regularizer
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.necks import ExtraLayersOptions, FpnOptions, extra_layers, feature_pyramid
from tests.support.cases import cases, refused

BIFPN_HYPERPARAMS = LayerHyperparams(batch_norm=BatchNormOptions(), activation="swish", force_use_bias=True)


def _network(levels, **options):
    layers = NetworkLayers(hyperparams=BIFPN_HYPERPARAMS)
    maps = necks.bidirectional_pyramid(levels, layers, necks.BifpnOptions(**options))
    return tf_keras.Model(list(levels.values()), maps)


@cases(4, 5, 7)
def test_bifpn_pyramid_of_an_input_whose_sizes_are_no_powers_of_two(*, max_level):
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
    combines = {layer.name for layer in network.layers if layer.name.endswith("_combine")}
    assert combines == {f"bifpn_{node}_combine" for node in range(2, 26)}


def _two_levels(coarse_channels=6, **options):
    levels = {3: tf_keras.Input((4, 4, 6)), 4: tf_keras.Input((2, 2, coarse_channels))}
    return _network(levels, channels=6, iterations=1, max_level=4, backbone_max_level=4, **options)


def _draw(channels: tuple[int, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = zip((4, 2), channels, strict=True)
    return [rng.standard_normal((1, side, side, c)).astype(np.float32) for side, c in shapes]


def test_first_node_adds_the_coarser_map_repeated_and_last_one_the_finer_map_pooled():
    network = _two_levels(combine_method="sum")
    sums = [network.get_layer(f"bifpn_{node}_combine").output for node in (0, 1)]
    fine, coarse = _draw((6, 6))
    down, up = tf_keras.Model(network.inputs, sums)([fine, coarse])
    np.testing.assert_allclose(down, fine + coarse.repeat(2, axis=1).repeat(2, axis=2), rtol=1e-6)
    finest = network([fine, coarse])[0]
    np.testing.assert_allclose(up, coarse + tf.nn.max_pool2d(finest, 3, 2, "SAME"), rtol=1e-6)


def test_maps_of_other_channels_are_projected_and_a_node_activates_before_its_convolution():
    # Node 0 is on level 3 and takes level 4 from above, node 1 is on level 4.
    projections = {layer.name for layer in _two_levels(coarse_channels=8).layers if "_input_" in layer.name}
    assert projections == {
        f"bifpn_{name}" for name in ("0_input_1", "0_input_1_bn", "1_input_0", "1_input_0_bn")
    }
    network = _two_levels()
    order = ["bifpn_0_combine", "bifpn_0_act", "bifpn_0_depthwise", "bifpn_0_pointwise", "bifpn_0_bn"]
    for before, after in itertools.pairwise(order):
        sources = tf.nest.flatten(network.get_layer(after).input)
        assert before in {source._keras_history.layer.name for source in sources}
    assert network.get_layer("bifpn_0_pointwise").use_bias
    assert not network.get_layer("bifpn_0_depthwise").use_bias


MAPS = [np.full((1, 2, 2, 1), value, np.float32) for value in (1.0, 10.0, 100.0)]
WEIGHTS = np.array([[0.5], [-1.0], [1.5]], np.float32)


@cases(
    ("fast_attention", 150.5 / 2.0001),  # (0.5 x 1 + 0 x 10 + 1.5 x 100) / (0.5 + 0 + 1.5 + 0.0001)
    ("weighted_sum", 0.5 - 10.0 + 150.0),
    ("attention", 111.0),
)
def test_maps_are_added_up_by_their_shares(*, method, wanted):
    assert necks.COMBINE_METHODS == ("sum", "fast_attention", "weighted_sum", "attention")
    assert method in necks.SHARES
    layer = necks.WeightedFusion(method, name="node")
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(MAPS))
    if method != "attention":
        assert np.abs(tape.gradient(total, layer.combine_weights)).min() > 0.0
    (weights,) = layer.trainable_variables
    assert weights.name.split("/")[-1] == "bifpn_combine_weights:0"
    np.testing.assert_array_equal(weights, [[1.0], [1.0], [1.0]])
    weights.assign(WEIGHTS)
    np.testing.assert_allclose(layer(MAPS), np.full((1, 2, 2, 1), wanted), rtol=1e-6)


def test_a_saved_layer_comes_back(tmp_path):
    inputs = [tf_keras.Input((2, 2, 1)) for _ in MAPS]
    network = tf_keras.Model(inputs, necks.WeightedFusion("weighted_sum", name="node")(inputs))
    network.get_layer("node").combine_weights.assign(WEIGHTS)
    network.save(tmp_path / "network.keras")
    again = tf_keras.models.load_model(tmp_path / "network.keras")
    np.testing.assert_array_equal(again(MAPS), network(MAPS))


@cases(False, True)
def test_each_map_halves_the_one_before(*, use_depthwise):
    regularizer = Regularizer(kind="l2", weight=1.0)
    hyperparams = LayerHyperparams(batch_norm=BatchNormOptions(), regularizer=regularizer)
    layers = NetworkLayers(hyperparams=hyperparams)
    maps = [tf_keras.Input((19, 19, 24)), tf_keras.Input((10, 10, 32))]
    assert extra_layers(maps, layers, ExtraLayersOptions(num_layers=1)) == maps[:1]
    options = ExtraLayersOptions(depth_multiplier=0.25, min_depth=40, use_depthwise=use_depthwise)
    found = [tuple(features.shape[1:]) for features in extra_layers(maps, layers, options)]
    assert found == [(19, 19, 24), (10, 10, 32), (5, 5, 128), (3, 3, 64), (2, 2, 64), (1, 1, 40)]
    assert not any(name.endswith("depthwise_kernel") for name in layers.regularizers)
    assert len(layers.regularizers) == 8


FLAT = NetworkLayers(hyperparams=LayerHyperparams(activation="none"))


@cases(False, True)
def test_fpn_pyramid_of_an_input_whose_sizes_are_no_powers_of_two(*, use_depthwise):
    levels = {3: tf_keras.Input((19, 13, 8)), 4: tf_keras.Input((10, 7, 12)), 5: tf_keras.Input((5, 4, 16))}
    options = FpnOptions(min_level=3, max_level=7, channels=6, use_depthwise=use_depthwise)
    maps = feature_pyramid(levels, FLAT, options)
    shapes = [tuple(features.shape[1:]) for features in maps]
    assert shapes == [(19, 13, 6), (10, 7, 6), (5, 4, 6), (3, 2, 6), (2, 1, 6)]


def test_a_finer_level_is_its_projection_plus_the_coarser_level_repeated():
    levels = {2: tf_keras.Input((4, 4, 2)), 3: tf_keras.Input((2, 2, 3))}
    options = FpnOptions(min_level=2, max_level=3, backbone_max_level=3, channels=2)
    network = tf_keras.Model(list(levels.values()), feature_pyramid(levels, FLAT, options))
    inner = tf_keras.Model(network.inputs, network.get_layer("fpn_add_2").output)
    fine, coarse = _draw((2, 3))
    above = coarse @ network.get_layer("fpn_lateral_3").kernel.numpy()[0, 0]
    wanted = fine @ network.get_layer("fpn_lateral_2").kernel.numpy()[0, 0]
    wanted = wanted + above.repeat(2, axis=1).repeat(2, axis=2)
    np.testing.assert_allclose(inner([fine, coarse]), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(network([fine, coarse])[1], above, rtol=1e-5, atol=1e-5)


LAYERS = NetworkLayers(hyperparams=LayerHyperparams(batch_norm=BatchNormOptions()))
OUTPUTS = HeadOutputs(anchors_per_location=[3, 2], num_class_slots=5)


def _network_convolutional(**options) -> tf_keras.Model:
    maps = [tf_keras.Input((4, 4, 8)), tf_keras.Input((2, 2, 6))]
    head = ConvolutionalHead(**options)
    return tf_keras.Model(maps, list(head(maps, LAYERS, OUTPUTS)))


def test_every_map_has_its_own_predictors_and_anchors_and_dropout_acts_in_training_only():
    dropout = {"use_dropout": True, "dropout_keep_probability": 0.5}
    network = _network_convolutional(class_prediction_bias_init=-2.0, **dropout)
    codes, logits = network([tf.zeros([2, 4, 4, 8]), tf.zeros([2, 2, 2, 6])])
    np.testing.assert_array_equal(codes, np.zeros((2, 3 * 16 + 2 * 4, 4)))
    np.testing.assert_array_equal(logits, np.full((2, 3 * 16 + 2 * 4, 5), -2.0))
    kernels = {weight.name: tuple(weight.shape) for weight in network.weights if "kernel" in weight.name}
    assert kernels == {
        "box_head_0/kernel:0": (1, 1, 8, 12),
        "box_head_1/kernel:0": (1, 1, 6, 8),
        "class_head_0/kernel:0": (1, 1, 8, 15),
        "class_head_1/kernel:0": (1, 1, 6, 10),
    }
    features = [tf.ones([1, 4, 4, 8]), tf.ones([1, 2, 2, 6])]
    once, again = network(features), network(features, training=True)
    np.testing.assert_array_equal(once[0], again[0])
    assert not np.allclose(once[1], again[1])


def test_layers_before_the_predictor_are_between_min_and_max_depth():
    network = _network_convolutional(num_layers_before_predictor=2, min_depth=7, max_depth=7, kernel_size=3)
    assert network.get_layer("head_shared_1_1").filters == 7
    assert network.get_layer("class_head_0").kernel.shape == (3, 3, 7, 15)
    names = {layer.name for layer in _network_convolutional(num_layers_before_predictor=2).layers}
    assert not any(name.startswith("head_shared") for name in names)


def test_rows_follow_map_then_row_then_column_then_anchor():
    inputs = [tf_keras.Input((2, 2, 6)), tf_keras.Input((1, 1, 6))]
    network = tf_keras.Model(inputs, per_anchor(inputs, 3, "rows"))
    first = np.arange(24, dtype=np.float32).reshape(1, 2, 2, 6)
    second = 100 + np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6)
    wanted = np.concatenate([first.reshape(1, 8, 3), second.reshape(1, 2, 3)], axis=1)
    np.testing.assert_array_equal(network([first, second]), wanted)
    assert per_anchor(inputs[:1], 2, "rows").shape == (None, 12, 2)  # one map needs no concatenation


def test_many_maps_are_joined_few_at_a_time_in_their_order():
    inputs = [tf_keras.Input((1, 1, 2)) for _ in range(7)]
    network = tf_keras.Model(inputs, per_anchor(inputs, 2, "rows"))
    joins = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.Concatenate)]
    assert max(len(layer.input) for layer in joins) <= MOST_JOINED and joins[-1].name == "rows"
    maps = [np.full((1, 1, 1, 2), number, np.float32) for number in range(7)]
    np.testing.assert_array_equal(network(maps)[0, :, 0], range(7))


L2 = Regularizer(kind="l2", weight=1.0)
HYPERPARAMS = LayerHyperparams(batch_norm=BatchNormOptions(), regularizer=L2)
SHARED_ZEROS = [tf.zeros([1, 4, 4, 8]), tf.zeros([1, 2, 2, 8])]


def _network_weight_shared(anchors=(3, 3), **options) -> tuple[tf_keras.Model, NetworkLayers]:
    layers = NetworkLayers(hyperparams=HYPERPARAMS)
    maps = [tf_keras.Input((4, 4, 8)), tf_keras.Input((2, 2, 8))]
    head = WeightSharedHead(depth=6, num_layers_before_predictor=2, **options)
    outputs = head(maps, layers, HeadOutputs(anchors_per_location=list(anchors), num_class_slots=5))
    return tf_keras.Model(maps, list(outputs)), layers


@cases((True, 1), (False, 2))
def test_levels_share_convolutions_but_not_normalisations(*, share, towers):
    network, _ = _network_weight_shared(share_prediction_tower=share, class_prediction_bias_init=-4.6)
    codes, logits = network(SHARED_ZEROS)
    assert codes.shape == (1, 60, 4)
    np.testing.assert_allclose(logits, np.full((1, 60, 5), -4.6), rtol=1e-6)
    convolutions = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.Conv2D)]
    norms = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.BatchNormalization)]
    assert len(convolutions) == 2 * towers + 2
    assert len(norms) == 2 * 2 * towers
    assert all(len(layer.inbound_nodes) == 2 for layer in convolutions)


@cases(*itertools.product((False, True), (False, True)))
def test_which_separable_kernels_the_hyperparameters_reach(*, heads, pointwise):
    reach = {"apply_conv_hyperparams_to_heads": heads, "apply_conv_hyperparams_pointwise": pointwise}
    _, layers = _network_weight_shared(use_depthwise=True, share_prediction_tower=True, **reach)
    found: dict[str, set[str]] = {"depthwise_kernel": set(), "kernel": set()}
    for name in layers.regularizers:
        layer, weight = name.split("/")
        found[weight].add(layer.removesuffix("_depthwise").removesuffix("_pointwise").rstrip("_01"))
    reached = {"tower", "box_head", "class_head"} if heads else {"tower"}
    assert found == {"depthwise_kernel": reached, "kernel": reached if pointwise else set()}


def test_scores_instead_of_logits_and_different_numbers_of_anchors_are_refused():
    scores = _network_weight_shared(score_converter="sigmoid")[0](SHARED_ZEROS)[1]
    np.testing.assert_allclose(scores, np.full((1, 60, 5), 0.5))
    refused(ValueError, "same number of anchors", _network_weight_shared, anchors=(3, 2))
