"""Layers: activations, dropout, gates, hyperparameters, names, padding, regularizers and resizing."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.ops.update_draws import update_draws
from detection_core.parts.layers import keras_layers, layer_names, network_layers
from detection_core.parts.layers.layer_hyperparams import (
    BatchNormOptions,
    InitializerOptions,
    LayerHyperparams,
    Regularizer,
    regularization_loss,
    regularized_variables,
    regularizer_loss,
)
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases
from tests.support.golden_networks import MOBILE, load_golden
from tests.support.import_closure import ROOT

CORE = ROOT / "detection_core"
NETWORKS = ("parts", "families", "detectors", "quantization")


def _model(layer, *shape: int) -> tf_keras.Model:
    """A network of an input, a pixel or a row of numbers, and what a layer makes of it."""
    inputs = tf_keras.Input(shape)
    return tf_keras.Model(inputs, layer(inputs))


def _layers(**hyperparams) -> network_layers.NetworkLayers:
    return network_layers.NetworkLayers(hyperparams=LayerHyperparams(**hyperparams))


@cases("swish", "relu", "relu6", *keras_layers.FUNCTIONS)
def test_layers_equal_the_reference(*, name):
    given = goldens.given("layers", f"activation_{name}")["x"][:, np.newaxis]
    model = _model(_layers(activation=name).activation("act"), 1)
    wanted = goldens.wanted("layers", f"activation_{name}")["y"]
    np.testing.assert_allclose(model(given)[:, 0], wanted, 1e-4, 1e-5)
    copy = tf_keras.Model.from_config(model.get_config())
    np.testing.assert_array_equal(copy(given), model(given))


def test_a_constant_is_added_and_multiplied_and_comes_back_from_a_config():
    half = keras_layers.MultiplyByConstant(0.5, name="half")
    network = _model(lambda inputs: half(keras_layers.AddConstant(3.0)(inputs)), 3)
    copied = tf_keras.Model.from_config(network.get_config())
    assert copied.get_layer("half").value == 0.5
    np.testing.assert_allclose(copied(np.array([[-1.5, 0.0, 2.0]], np.float32)), [[0.75, 1.5, 2.5]])


IMAGES = tf.ones([64, 4, 4, 2])
LAYERS = {
    "values": lambda: keras_layers.Dropout(0.25, name="drop"),
    "images": lambda: keras_layers.stochastic_depth(0.25, "drop"),
}


@cases(*LAYERS)
def test_draws_follow_the_update_and_what_is_kept_is_scaled_up(*, kind: str) -> None:
    found = []
    for step in (5, 5, 6):
        layer = LAYERS[kind]()  # another process has another layer of the same name
        with update_draws(1, step):
            found.append(layer(IMAGES, training=True).numpy())
            np.testing.assert_array_equal(layer(IMAGES, training=False), IMAGES)
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert set(np.unique(found[0].round(5))) == {0.0, np.float32(4 / 3).round(5)}
    assert np.mean(found[0] > 0) == pytest.approx(0.75, abs=0.2 if kind == "images" else 0.05)
    assert ({len(np.unique(image)) for image in found[0]} == {1}) == (kind == "images")


def test_keras_draws_outside_of_an_update_and_a_copy_from_its_config_is_alike() -> None:
    layer = keras_layers.Dropout(0.5, name="drop")
    assert not np.array_equal(layer(IMAGES, training=True), layer(IMAGES, training=True))
    network = tf_keras.Sequential([keras_layers.stochastic_depth(0.25, "drop")])
    (copy,) = tf_keras.Sequential.from_config(network.get_config()).layers
    assert type(copy) is keras_layers.Dropout and (copy.rate, copy.noise_shape) == (0.25, (None, 1, 1, 1))


def test_no_detector_has_another_dropout_or_other_draws() -> None:
    others = re.compile(r"layers\.(Spatial|Gaussian|Alpha)?Dropout|tf\.random\.|tf\.nn\.dropout")
    files = [path for folder in ("parts", "families") for path in (CORE / folder).rglob("*.py")]
    found = [path.name for path in files if others.search(path.read_text())]
    assert found == ["keras_layers.py"]


SIGMOIDS = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6}


def _gated(**options):
    layers = _layers(regularizer=Regularizer(kind="l2", weight=1.0))
    return _model(
        lambda inputs: network_layers.squeeze_excite(inputs, layers, "backbone_block_0", 3, **options),
        4,
        5,
        6,
    ), layers


@cases(*network_layers.GATES)
def test_channels_are_weighed_by_their_means(*, gate):
    network, _ = _gated(activation="relu", gate=gate)
    rng = np.random.default_rng(0)
    for weight in network.weights:
        weight.assign(rng.normal(0, 2, weight.shape))
    features = rng.normal(0, 1, (2, 4, 5, 6)).astype(np.float32)
    reduce, reduce_bias, expand, expand_bias = (weight.numpy() for weight in network.weights)
    means = np.maximum(features.mean((1, 2)) @ reduce[0, 0] + reduce_bias, 0)
    weights = SIGMOIDS[gate](means @ expand[0, 0] + expand_bias)
    assert weights.min() < 0.1 and weights.max() > 0.9
    np.testing.assert_allclose(network(features), features * weights[:, None, None], rtol=1e-4, atol=1e-6)


def test_biases_are_regularized_where_that_is_asked_for():
    pieces = [f"backbone_block_0_gate_{piece}" for piece in ("reduce", "expand")]
    for biases, leaves in ((True, ("kernel", "bias")), (False, ("kernel",))):
        _, layers = _gated(activation="swish", regularize_biases=biases)
        assert set(layers.regularizers) == {f"{piece}/{leaf}" for piece in pieces for leaf in leaves}
    for kind, wanted in (("l2", 0.5 * (0.5 * (1 + 4 + 9))), ("l1", 0.5 * 6.0)):
        found = regularizer_loss(Regularizer(kind=kind, weight=0.5), tf.constant([1.0, -2.0, 3.0]))
        np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=kind)


def test_first_weights_follow_from_seed_and_name():
    options = InitializerOptions(class_name="RandomNormal", arguments={"mean": 1.0, "stddev": 0.01})
    first = options.build(0, "a/kernel")((3, 3))
    np.testing.assert_array_equal(first, options.build(0, "a/kernel")((3, 3)))
    assert not np.allclose(first, options.build(0, "b/kernel")((3, 3)), atol=1e-4)
    assert not np.allclose(first, options.build(1, "a/kernel")((3, 3)), atol=1e-4)
    np.testing.assert_allclose(np.mean(first), 1.0, atol=0.02)
    zeros = InitializerOptions(class_name="Zeros").build(3, "a")  # which takes no seed
    np.testing.assert_array_equal(zeros((2,)), [0.0, 0.0])


@cases(
    (None, False, True),
    (BatchNormOptions(), False, False),
    (BatchNormOptions(center=False), False, True),
    (BatchNormOptions(), True, True),
)
def test_a_bias_is_left_out_where_the_normalisation_has_an_offset(*, batch_norm, force, wanted):
    assert LayerHyperparams(batch_norm=batch_norm, force_use_bias=force).use_bias is wanted


L2 = Regularizer(kind="l2", weight=0.1)
HYPERPARAMS = LayerHyperparams(regularizer=L2, batch_norm=BatchNormOptions(), activation="relu6")


def test_regularizers_are_noted_by_name_and_layers_carry_none():
    layers = network_layers.NetworkLayers(hyperparams=HYPERPARAMS)
    inputs = tf_keras.Input((8, 8, 3))
    features = layers.conv("a", 4, 3)(inputs)
    features = layers.separable("b", 4, 3)(features)
    features = layers.under(LayerHyperparams()).conv("c", 4, 1)(features)
    network = tf_keras.Model(inputs, layers.conv("d", 4, 1, plain=True)(features))
    assert layers.regularizers == {"a/kernel": L2, "b_depthwise/depthwise_kernel": L2}
    assert network.losses == []


@cases(8, 9)
def test_explicit_padding_gives_the_size_of_same_padding_and_the_values_of_a_padded_input(*, size):
    same = _model(_layers().conv("same", 3, 3, stride=2), size, size, 2)
    layers = network_layers.NetworkLayers(hyperparams=LayerHyperparams(), explicit_padding=True)
    network = _model(layers.conv("explicit", 3, 3, stride=2), size, size, 2)
    assert network.output_shape == same.output_shape
    image = np.random.default_rng(0).standard_normal((1, size, size, 2)).astype(np.float32)
    padded = np.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)])
    wanted = tf.nn.conv2d(padded, network.get_layer("explicit").kernel, 2, "VALID")
    np.testing.assert_allclose(network(image), wanted, rtol=1e-5, atol=1e-5)


@cases((True, True), (False, False), (False, True))
def test_normalisation_is_trained_unless_frozen(*, freeze, train):
    hyperparams = LayerHyperparams(batch_norm=BatchNormOptions(scale=True, train=train))
    network = _model(
        network_layers.NetworkLayers(hyperparams=hyperparams, freeze_batch_norm=freeze).norm("n"), 2
    )
    values, moving_mean = tf.constant([[1.0, 5.0], [3.0, 9.0]]), network.get_layer("n").moving_mean
    normalised = network(values, training=True)
    if freeze or not train:
        np.testing.assert_allclose(normalised, values, rtol=1e-3)
        np.testing.assert_array_equal(moving_mean, [0.0, 0.0])
    else:
        np.testing.assert_allclose(normalised, [[-1.0, -1.0], [1.0, 1.0]], atol=1e-2)
        assert moving_mean.numpy().any()
    assert len(network.trainable_variables) == 2


@cases(
    ("none", [-2.0, 3.0, 8.0]),
    ("relu", [0.0, 3.0, 8.0]),
    ("relu6", [0.0, 3.0, 6.0]),
    ("swish", [-2.0 / (1 + np.exp(2.0)), 3.0 / (1 + np.exp(-3.0)), 8.0 / (1 + np.exp(-8.0))]),
)
def test_activations(*, activation, wanted):
    network = _model(lambda inputs: _layers(activation=activation).norm_activation(inputs, "x"), 3)
    np.testing.assert_allclose(network(tf.constant([[-2.0, 3.0, 8.0]]))[0], wanted, rtol=1e-5)


def test_inputs_are_padded_below_and_to_the_right():
    padded = _model(lambda inputs: network_layers.pad_to_multiple(inputs, 4), 5, 8, 1)(tf.ones([1, 5, 8, 1]))
    assert padded.shape == (1, 8, 8, 1)
    np.testing.assert_array_equal(padded[0, :, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0])
    inputs = tf_keras.Input((5, 8, 1))
    assert network_layers.pad_to_multiple(inputs, 1) is inputs


@cases(
    ("unit_range", [-1.0, 0.0, 1.0]),
    ("channel_means", [-123.68, 10.721, 151.061]),
    ("standardize", [-0.485 / 0.229, (0.5 - 0.456) / 0.224, (1 - 0.406) / 0.225]),
)
def test_pixels_become_what_the_backbone_expects(*, name, wanted):
    pixels = tf.constant([[[[0.0, 127.5, 255.0]]]])
    np.testing.assert_allclose(
        keras_layers.PREPROCESSORS[name](pixels)[0, 0, 0], wanted, rtol=1e-5, atol=1e-6
    )


def test_shared_layers_are_regularized_once_copies_each_and_lost_ones_reported(caplog):
    kernel = {"a/kernel": Regularizer(kind="l2", weight=0.5)}
    shared = tf_keras.layers.Dense(2, kernel_initializer="ones", name="a")
    network = _model(lambda inputs: tf_keras.layers.Add()([shared(inputs), shared(shared(inputs))]), 2)
    lost = {"gone/kernel": Regularizer(kind="l1", weight=1.0)}
    found = regularized_variables(network, kernel | lost)
    assert [variable.name for variable, _ in found] == ["a/kernel:0"]
    np.testing.assert_allclose(regularization_loss(found), 0.5 * 0.5 * 4.0)
    assert "1 of 2 regularized weights" in caplog.text and "gone/kernel" in caplog.text
    copies = [
        tf_keras.layers.Dense(2, kernel_initializer="ones", name=f"a_level_{level}") for level in (0, 1)
    ]
    found = regularized_variables(_model(lambda inputs: [copy(inputs) for copy in copies], 2), kernel)
    assert [variable.name for variable, _ in found] == ["a_level_0/kernel:0", "a_level_1/kernel:0"]
    np.testing.assert_allclose(regularization_loss(found), 2 * 0.5 * 0.5 * 4.0)
    assert float(regularization_loss([])) == 0.0


def test_each_row_is_that_at_its_place_times_the_ratio():
    rows = np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1)
    for size, wanted in ((5, [0, 0, 1, 1, 2]), (7, [0, 0, 0, 1, 1, 2, 2])):
        assert keras_layers.NearestResize(size, 1)(rows)[0, :, 0, 0].numpy().tolist() == wanted
    layer = keras_layers.NearestResize(4, 6, name="up")
    copy = tf_keras.layers.deserialize(tf_keras.layers.serialize(layer))
    assert (copy.rows, copy.columns, copy.name) == (4, 6, "up")


PARSER = CORE / "parts/layers/layer_names.py"
STRING_METHODS = {
    *("split", "rsplit", "partition", "rpartition", "startswith", "endswith"),
    *("removeprefix", "removesuffix", "find", "rfind", "index", "replace", "strip"),
}
# Names in the checkpoints and classifiers of other projects, not those of our layers.
EXEMPT = {
    CORE / "families/ssd/checkpoint_names.py": {"v.name"},
    CORE / "training/application_weights.py": {"norm.name"},
    # A file's tensor is named by the converter, with all nodes of the graph that it comes from.
    CORE / "exporters/tflite_layers.py": {"tensor.name"},
    # A separable convolution of its checkpoints is two layers here, told apart by the ending of their names.
    CORE / "families/center_net/checkpoint_names.py": {"layer.name"},
    # The name of a head, not of a layer.
    CORE / "families/center_net/network.py": {"head.name"},
    # Names in google/automl's checkpoints, which are no names of layers here, have running numbers.
    CORE / "families/efficientdet/checkpoint_names.py": {"import re"},
    # google/automl's var_freeze_expr is a regular expression of the user's.
    CORE / "families/efficientdet/check.py": {"import re"},
    CORE / "families/efficientdet/settings.py": {"import re"},
}


def _name(part: str, *indices: int, **rest) -> layer_names.LayerName:
    return layer_names.LayerName(part=part, indices=indices, **rest)


@cases(
    ("backbone_stem_bn", _name("backbone_stem", norm=True), "backbone_stem", "bn"),
    (
        "backbone_block_3_0_gate_reduce",
        _name("backbone_block", 3, 0, piece="gate_reduce"),
        "backbone_block_N_N",
        "gate_reduce",
    ),
    ("backbone_conv2_3x3", _name("backbone_conv2_3x3"), "backbone_conv2_3x3", ""),
    ("fpn_lateral_4", _name("fpn_lateral", 4), "fpn_lateral_N", ""),
    (
        "extra_2_halve_depthwise_bn",
        _name("extra", 2, piece="halve_depthwise", norm=True),
        "extra_N",
        "halve_depthwise_bn",
    ),
    ("bifpn_7_input_1_bn", _name("bifpn", 7, piece="input", number=1, norm=True), "bifpn_N_input_N", "bn"),
    ("box_head_pointwise", _name("box_head", piece="pointwise"), "box_head", "pointwise"),
    (
        "class_head_5_depthwise_bn",
        _name("class_head", 5, piece="depthwise", norm=True),
        "class_head_N",
        "depthwise_bn",
    ),
    ("box_tower_2_level_4_bn", _name("box_tower", 2, level=4, norm=True), "box_tower_N_level_N", "bn"),
)
def test_what_a_name_says(*, name, parsed, unit, role):
    found = layer_names.parse_layer_name(name)
    assert (found, found.unit, found.role) == (parsed, unit, role)


@cases(*MOBILE)
def test_every_layer_with_weights_has_a_role_of_its_own(*, golden):
    network = build_detector(load_golden(golden).message).network
    names = [layer.name for layer in network.layers if layer.weights]
    roles = [layer_names.parse_layer_name(name) for name in names]
    assert None not in roles
    assert len(set(roles)) == len(names) > 40
    for name, role in zip(names, roles, strict=True):
        assert layer_names.in_backbone(name) == role.part.startswith("backbone_"), name


def test_a_variable_is_known_behind_the_scopes_of_wrappers():
    with tf.name_scope("quant_box_head_level_3"):
        variable = tf.Variable(1.0, name=f"{layer_names.copy_name('box_head', 3)}/kernel")
    assert layer_names.scoped_name(variable) == "quant_box_head_level_3/box_head_level_3/kernel"
    found = layer_names.parse_variable_name(variable)
    assert found == layer_names.VariableName(layer="box_head_level_3", weight="kernel")
    assert (found.key, found.original.key) == ("box_head_level_3/kernel", "box_head/kernel")
    assert found.original.original == found.original


def test_norms_are_called_after_their_layer_the_weight_inside_it_and_others_have_no_role():
    assert layer_names.split_norm("backbone_stem_bn") == ("backbone_stem", True)
    assert layer_names.split_norm("backbone_stem") == ("backbone_stem", False)
    layer = tf_keras.layers.Dense(2, name="some/layer")
    layer.build((1, 3))
    assert [layer_names.parse_variable_name(weight).weight for weight in layer.weights] == ["kernel", "bias"]
    names = ("image", "somebody", "fpn_add_3", "tower-x", "head")
    assert {name: layer_names.parse_layer_name(name) for name in names} == dict.fromkeys(names)


def _parsed_names(path: Path) -> set[str]:
    """Expressions `X.name` that a module takes apart, and whether it imports regular expressions."""
    parsed = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import) and "re" in {alias.name for alias in node.names}:
            parsed.add("import re")
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called, subjects = node.func, []
        if called.attr in STRING_METHODS:
            subjects = [called.value]
        elif called.attr in ("match", "fullmatch", "search", "sub", "findall"):
            subjects = list(node.args)
        for subject in subjects:
            inner = [n for n in ast.walk(subject) if isinstance(n, ast.Attribute) and n.attr == "name"]
            parsed |= {ast.unparse(n) for n in inner}
    return parsed


def test_nobody_else_parses_names_of_layers_or_has_regular_expressions():
    offenders = {}
    for folder in (*NETWORKS, "training", "exporters", "builders", "tasks"):
        for path in (CORE / folder).rglob("*.py"):
            parsed = _parsed_names(path) - EXEMPT.get(path, set())
            parsed -= set() if folder in NETWORKS else {"import re"}
            if path != PARSER and parsed:
                offenders[str(path)] = parsed
    assert offenders == {}


@cases(("same", 1, True, 1), ("same", 2, True, 2), ("valid", 2, False, 1))
def test_a_normalisation_joins_a_depthwise_convolution(*, padding, stride, whole, multiplier):
    """In a graph with averages, TensorFlow fuses it; values are those of the layer that is not joined."""
    draws = np.random.default_rng(0)
    convolution = tf_keras.layers.DepthwiseConv2D(
        3, strides=stride, padding=padding, depth_multiplier=multiplier, use_bias=False
    )
    norm = keras_layers.BatchNormalization(center=whole, scale=whole)
    network = _model(lambda maps: norm(convolution(maps)), 9, 7, 5)
    for variable in norm.variables:
        variable.assign(draws.uniform(0.5, 2.0, variable.shape))
    maps = tf.constant(draws.normal(size=(2, 9, 7, 5)), tf.float32)
    joined = tf.function(lambda: network(maps, training=False)).get_concrete_function()
    assert "FusedBatchNormV3" not in {operation.type for operation in joined.graph.get_operations()}
    np.testing.assert_allclose(joined(), network(maps, training=False), rtol=1e-5, atol=1e-5)
    training = tf.function(lambda: network(maps, training=True)).get_concrete_function()
    assert "FusedBatchNormV3" in {operation.type for operation in training.graph.get_operations()}
