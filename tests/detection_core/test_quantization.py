"""Reading, folding, splitting, grouping and rebuilding of networks that are quantized."""

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.errors import ModelError
from detection_core.families.efficientdet.network import NodeFusion
from detection_core.parts.layers.keras_layers import AddConstant, NearestResize
from detection_core.parts.necks import WeightedFusion
from detection_core.quantization import quantizers
from detection_core.quantization.aware import PREFIX, add_fake_quantization, set_ranges
from detection_core.quantization.equalisation import correct_biases
from detection_core.quantization.folding import ScaledMap, fold_batch_norms, in_integer_operations
from detection_core.quantization.graph import read_graph, rebuild
from detection_core.quantization.layer_errors import OTHER, layer_groups
from tests.support.cases import cases, refused
from tests.support.small_detectors import small_detector
from tests.support.tiny_network import observe_ranges, tiny_network


def assert_rebuilt(graph, network):
    """With the same layers a graph gives what its network gives."""
    again = rebuild(graph, lambda call: call.layer if call.inputs else None, name="again")
    x = np.random.default_rng(0).uniform(-1, 1, (1, *network.input_shape[1:])).astype(np.float32)
    for a, b in zip(network(x), again(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_calls_follow_their_inputs_and_shared_layers_are_listed_once_a_level():
    network = tiny_network()
    graph = read_graph(network)
    assert_rebuilt(graph, network)
    seen: set[str] = set()
    for call in graph.calls.values():
        assert set(call.inputs) <= seen
        seen.add(call.name)
    assert [graph.calls[f"box_codes_{i}"].inputs for i in (0, 1)] == [("box_level_0",), ("box_level_1",)]
    assert graph.calls["residual"].many and not graph.calls["stem"].many
    assert graph.inputs == ("pixels",) and graph.outputs == ("box_codes", "class_logits")
    assert graph.consumers()["residual"] == ["fine"]


def test_a_sum_of_more_than_two_tensors_is_taken_apart():
    pixels = tf_keras.Input((2, 2, 3))
    maps = [tf_keras.layers.ReLU(name=f"map_{number}")(pixels) for number in range(4)]
    network = tf_keras.Model(pixels, tf_keras.layers.Add(name="sum")(maps))
    graph = in_integer_operations(read_graph(network))
    sums = [call for call in graph.calls.values() if isinstance(call.layer, tf_keras.layers.Add)]
    assert [call.name for call in sums] == ["sum_part_1", "sum_part_2", "sum"]
    assert all(len(call.inputs) == 2 for call in sums) and graph.outputs == ("sum",)
    assert_rebuilt(graph, network)


def test_what_is_no_flat_functional_network_is_refused():
    refused(ModelError, "functional", read_graph, type("Own", (tf_keras.Model,), {})())
    inner = tf_keras.Sequential([tf_keras.layers.Conv2D(2, 1)], name="inner")
    pixels = tf_keras.Input((4, 4, 3))
    network = tf_keras.Model(pixels, inner(pixels))
    refused(ModelError, "inner: expected a flat network", read_graph, network)


def assert_same_outputs(one: tf_keras.Model, other: tf_keras.Model, atol: float = 1e-5) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (2, *one.input_shape[1:])).astype(np.float32)
    for a, b in zip(*(tf.nest.flatten(network(x, training=False)) for network in (one, other)), strict=True):
        assert float(np.std(a)) > 0.1  # an output that is nearly constant would compare equal to anything
        np.testing.assert_allclose(a, b, atol=atol, rtol=0)


def test_a_folded_network_computes_the_same_without_normalisations_and_leaves_the_original():
    network = tiny_network()
    found = fold_batch_norms(network)
    assert_same_outputs(network, found.network, atol=1e-4)
    assert not [la for la in found.network.layers if isinstance(la, tf_keras.layers.BatchNormalization)]
    assert found.folded["tower_level_0"] == "tower_bn_0" and found.folded["tower_level_1"] == "tower_bn_1"
    kernels = [found.network.get_layer(f"tower_level_{level}").kernel.numpy() for level in (0, 1)]
    assert not np.allclose(*kernels)
    assert all(len(layer._inbound_nodes) == 1 for layer in found.network.layers)
    assert found.network.losses == []  # regularizers are dropped
    before = [w.numpy() for w in network.weights]
    found.network.get_layer("stem").kernel.assign(found.network.get_layer("stem").kernel * 0)
    for a, b in zip(before, network.weights, strict=True):
        np.testing.assert_array_equal(a, b.numpy())


def test_a_normalisation_with_another_reader_stays_and_a_constant_offset_goes_into_the_bias():
    pixels = tf_keras.Input((8, 8, 3))
    conv = tf_keras.layers.Conv2D(4, 3, name="conv")(pixels)
    norm = tf_keras.layers.BatchNormalization(name="norm")(conv)
    network = tf_keras.Model(pixels, tf_keras.layers.Add(name="sum")([conv, norm]))
    network.get_layer("norm").moving_mean.assign([1.0, 2.0, 3.0, 4.0])
    folded = fold_batch_norms(network)
    assert folded.folded == {} and folded.network.get_layer("norm") is not network.get_layer("norm")
    assert_same_outputs(network, folded.network)
    pixels = tf_keras.Input((4, 4, 3))
    outputs = [
        AddConstant(3.0, name=f"offset_{bias}")(tf_keras.layers.Conv2D(4, 1, use_bias=bias)(pixels))
        for bias in (True, False)
    ]
    network = tf_keras.Model(pixels, outputs)
    folded = fold_batch_norms(network)
    assert sorted(folded.folded.values()) == ["offset_False", "offset_True"]
    assert_same_outputs(network, folded.network)


MAPS = [np.random.default_rng(seed).normal(size=(2, 4, 4, 5)).astype(np.float32) for seed in range(3)]


def fused(kind: type, method: str, maps: int) -> tf_keras.Model:
    """A network that is one weighted sum, with weights as no initializer gives them."""
    inputs = [tf_keras.Input((4, 4, 5), name=f"map_{index}") for index in range(maps)]
    network = tf_keras.Model(inputs, kind(method, name="sum")(inputs))
    rng = np.random.default_rng(7)
    for weight in network.weights:
        weight.assign(rng.uniform(0.1, 1.5, weight.shape))
    return network


def split(network: tf_keras.Model) -> tf_keras.Model:
    return fold_batch_norms(network).network


@cases(
    *((WeightedFusion, method) for method in ("fast_attention", "weighted_sum", "attention")),
    *((NodeFusion, method) for method in ("fastattn", "attn", "channel_fastattn", "channel_attn")),
)
def test_products_and_pairwise_sums_give_the_same(*, kind, method):
    for maps in (1, 2, 3):
        network = fused(kind, method, maps)
        parts = split(network)
        assert not any(isinstance(layer, WeightedFusion) for layer in parts.layers)
        sums = [layer for layer in parts.layers if isinstance(layer, tf_keras.layers.Add)]
        assert len(sums) == maps - 1 and all(len(layer.input) == 2 for layer in sums)
        np.testing.assert_allclose(parts(MAPS[:maps]), network(MAPS[:maps]), rtol=1e-5, atol=1e-6)


def test_each_factor_trains_shares_that_never_move_have_none_and_the_last_sum_has_the_name():
    for method, shape in (("attn", ()), ("channel_attn", (5,))):
        parts = split(fused(NodeFusion, method, 2))
        assert [tuple(weight.shape) for weight in parts.trainable_weights] == [shape, shape]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(parts(MAPS[:2]))
        assert all(gradient is not None for gradient in tape.gradient(loss, parts.trainable_weights))
    parts = split(fused(WeightedFusion, "attention", 3))
    assert not any(isinstance(layer, ScaledMap) for layer in parts.layers)
    graph: Any = in_integer_operations(read_graph(fused(NodeFusion, "attn", 2)))
    assert list(graph.calls) == ["map_0", "map_1", "sum_share_0", "sum_share_1", "sum"]
    assert graph.outputs == ("sum",)
    config = graph.calls["sum_share_0"].layer.get_config()
    assert ScaledMap.from_config(config).per_channel is False


def enlarged(layer: tf_keras.layers.Layer) -> tf_keras.Model:
    pixels = tf_keras.Input((3, 5, 6))
    return tf_keras.Model(pixels, layer(pixels))


@cases((6, 10), (9, 10), (3, 20), (15, 5))
def test_upsampling_by_whole_factors_is_copies_with_the_same_bits(*, rows, columns):
    image = np.random.default_rng(7).normal(size=(2, 3, 5, 6)).astype(np.float32)
    factors = (rows // 3, columns // 5)
    for layer in (NearestResize(rows, columns, name="up"), tf_keras.layers.UpSampling2D(factors, name="up")):
        network = enlarged(layer)
        found = fold_batch_norms(network).network
        assert found.get_layer("up").factors == factors
        np.testing.assert_array_equal(found(image), network(image))


@cases(NearestResize(7, 10), NearestResize(18, 5), tf_keras.layers.UpSampling2D(2, interpolation="bilinear"))
def test_other_resizing_stays(*, layer):
    assert type(fold_batch_norms(enlarged(layer)).network.layers[1]) is type(layer)


@cases(
    ("ssd", {"fpn_lateral_5": "feature network", "box_head_depthwise_level_0": "box head"},
     {"stem": 2, "block_3_expand": 4, "block_3_project": 8, "head_act": 32}),
    ("efficientdet", {"box_codes": "box head"}, {"stem": 2, "block_6_0_project": 32}),
)  # fmt: skip
def test_every_layer_of_a_family_is_in_a_part(*, family, others, backbone):
    expected = {f"backbone_{name}": f"backbone, stride {stride}" for name, stride in backbone.items()}
    expected |= others | {"class_logits": "class head"}
    network = fold_batch_norms(small_detector(family).network).network
    groups = layer_groups(read_graph(network))
    assert {name: groups[name] for name in expected} == expected
    assert set(groups) == {layer.name for layer in network.layers} - {"image"}
    strides = {f"backbone, stride {2**power}" for power in range(1, 6)}
    assert set(groups.values()) == strides | {"feature network", "class head", "box head"}


def test_pooled_values_are_in_the_stage_of_their_map_and_other_names_are_a_part_too():
    pixels = tf_keras.Input((32, 32, 3), name="image")
    x = tf_keras.layers.Conv2D(4, 3, strides=4, padding="same", name="backbone_stem")(pixels)
    gate = tf_keras.layers.GlobalAveragePooling2D(keepdims=True, name="backbone_squeeze")(x)
    gate = tf_keras.layers.Conv2D(4, 1, name="backbone_gate")(gate)
    x = tf_keras.layers.Multiply(name="backbone_excite")([x, gate])
    assert set(layer_groups(read_graph(tf_keras.Model(pixels, x))).values()) == {"backbone, stride 4"}
    groups = layer_groups(read_graph(fold_batch_norms(tiny_network()).network))
    assert groups["stem"] == OTHER and groups["tower_level_0"] == "shared head"


OPTIONS = QuantizationOptions(delay=0)
CLOCK = quantizers.Clock(0, None)
LOW, HIGH = -1.3, 2.9


def product(factor: tf.Variable, options: QuantizationOptions = OPTIONS) -> quantizers.ProductQuantizer:
    return quantizers.ProductQuantizer(options, CLOCK, factor=factor, input_range=lambda: (LOW, HIGH))


def test_the_product_with_a_single_factor_loses_nothing_more():
    pixels = tf.constant(np.linspace(-2, 4, 500, dtype=np.float32))
    codes = tf.quantization.fake_quant_with_min_max_vars(pixels, LOW, HIGH)
    for factor in (0.37, 1.0, 4.2):
        variable = tf.Variable(factor)
        kept = quantizers.FactorQuantizer(8, CLOCK)(variable, False, {})
        np.testing.assert_allclose(kept, factor, rtol=1e-6)
        found = product(variable)(codes * kept, False, {})
        np.testing.assert_allclose(found, codes * factor, rtol=1e-4, atol=1e-6)


def test_a_range_follows_the_factor_which_training_moves():
    small = [LOW * quantizers.SMALLEST_FACTOR, HIGH * quantizers.SMALLEST_FACTOR]
    for factor, expected in (
        (-2.0, [-2 * HIGH, -2 * LOW]),
        # A dead one has steps that integer kernels take.
        (0.0, small),
        (1e-9, small),
        (-1e-9, small),
        # With a factor a channel the range holds every channel.
        ([0.5, 2.0, -1.0], [min(2 * LOW, -HIGH), 2 * HIGH]),
    ):
        np.testing.assert_allclose(product(tf.Variable(factor)).range_of({}), expected, rtol=1e-5)
    low, high = product(tf.Variable(0.5), QuantizationOptions(delay=0, symmetric=True)).range_of({})
    np.testing.assert_allclose(low, -high * 128 / 127, rtol=1e-6)
    found = quantizers.FactorQuantizer(8, CLOCK)(tf.Variable([0.5, 2.0, 0.0]), False, {})
    np.testing.assert_allclose(found, [0.5, 2.0, 0.0], atol=2 / 255)
    factor = tf.Variable(0.5)
    with tf.GradientTape() as tape:
        kept = quantizers.FactorQuantizer(8, CLOCK)(factor, True, {})
        loss = tf.reduce_sum(product(factor)(tf.constant([0.5, 1.0]) * kept, True, {}))
    np.testing.assert_allclose(tape.gradient(loss, factor), 1.5, rtol=1e-5)


PIXELS = np.random.default_rng(3).uniform(0, 1, (4, 32, 32, 3)).astype(np.float32)
# Few bits, so that what is corrected is much.
FOUR_BITS = QuantizationOptions(delay=0, weight_bits=4, activation_bits=8)


def prepared():
    folded = fold_batch_norms(tiny_network())
    aware = add_fake_quantization(folded, FOUR_BITS, input_range=(-1.0, 1.0))
    set_ranges(aware, observe_ranges(folded, aware.placement, [PIXELS]))
    return folded, aware


def test_a_corrected_channel_has_the_mean_that_its_kernel_would_have_given():
    def own_means(name: str) -> np.ndarray:
        """Mean over positions of what a layer adds itself, float [C]."""
        twin = aware.network.get_layer(PREFIX + name)
        with quantizers.unquantized_outputs() as outputs:
            given, _ = tf_keras.Model(aware.network.inputs, [twin.input, twin.output])(PIXELS)
        error = outputs[twin.name] - folded.network.get_layer(name)(given)
        return error.numpy().mean(axis=(0, 1, 2))

    folded, aware = prepared()
    refused(ModelError, "at least one batch to correct", correct_biases, folded, aware, [])
    before = own_means("stem")
    corrections = correct_biases(folded, aware, [PIXELS[:3], PIXELS[3:]])
    np.testing.assert_allclose(corrections["stem"], -before, rtol=1e-3, atol=1e-6)
    assert np.abs(before).max() > 1e-3 and np.abs(own_means("stem")).max() < 1e-5
    # Convolutions further on have inputs that the corrections before them changed.
    for name in set(corrections) - {"stem"}:
        assert np.abs(own_means(name)).mean() < 0.5 * np.abs(corrections[name]).mean()


def test_the_outputs_means_come_nearer_to_the_float_network_s():
    def means(network):
        return [output.numpy().mean(axis=(0, 1)) for output in network(PIXELS, training=False)]

    folded, aware = prepared()
    expected, found = means(folded.network), []
    for _ in range(2):
        pairs = zip(means(aware.network), expected, strict=True)
        found.append(float(np.mean([np.abs(one - other).mean() for one, other in pairs])))
        correct_biases(folded, aware, [PIXELS])
    assert found[1] < 0.5 * found[0]
