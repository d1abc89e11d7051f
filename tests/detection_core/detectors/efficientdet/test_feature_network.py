"""Pieces of the feature network, and networks with other settings, against google/automl's."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.detectors.efficientdet.checkpoint_names import automl_variables
from detection_core.detectors.efficientdet.feature_network import FeatureNetwork, NodeFusion
from detection_core.detectors.efficientdet.network import build_network
from detection_core.detectors.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases

CASES = goldens.cases("layers")
RESAMPLED = [name for name, case in CASES.items() if name.startswith("resample") and "error" not in case]
FUSED = [name for name in CASES if name.startswith("fuse_")]
OPTIONS = [name for name in CASES if name.startswith("network_option")]


def _feature_network(**fields):
    settings = goldens.settings(fpn_num_filters=4, **fields)
    return FeatureNetwork(settings, NetworkLayers(hyperparams=LayerHyperparams()))


def _set_weights(model, scopes):
    """Set the weights of a piece: `scopes` is our layer's name to the path of the reference's."""
    for layer in model.layers:
        for variable in layer.weights:
            leaf = variable.name.rpartition("/")[2].partition(":")[0]
            leaf = f"pointwise_{leaf}" if layer.name.endswith("pointwise") and leaf == "kernel" else leaf
            key = "/".join(part for part in (scopes[layer.name], leaf) if part)
            variable.assign(goldens.deterministic_weight(key, tuple(variable.shape)))


@cases(*RESAMPLED)
def test_resampling_equals_the_reference(*, case):
    params, given = CASES[case]["params"], goldens.given("layers", case)["x"]
    names = {"apply_bn": "apply_bn_for_resampling"}
    fields = {names.get(key, key): value for key, value in params.items() if not key.startswith("target")}
    fields.setdefault("apply_bn_for_resampling", False)
    size = params["target_hw"] or [-(-side // 2) for side in given.shape[1:3]]
    inputs = tf_keras.Input(given.shape[1:])
    model = tf_keras.Model(inputs, _feature_network(**fields).resampled(inputs, tuple(size), "r"))
    _set_weights(model, {layer.name: {"r": "conv2d", "r_bn": "bn"}.get(layer.name) for layer in model.layers})
    np.testing.assert_allclose(model(given), goldens.wanted("layers", case)["y"], 1e-3, 1e-4)


@cases((4, 8), (4, 4))
def test_maps_of_which_one_side_shrinks_are_refused(*, size):
    with pytest.raises(ValueError, match="one side shrinks"):
        _feature_network().resampled(tf_keras.Input((8, 4, 4)), size, "r")


@cases(*FUSED)
def test_sums_equal_the_reference(*, case):
    params, given = CASES[case]["params"], goldens.given("layers", case)
    network = _feature_network(fpn_weight_method=params["weight_method"])
    inputs = [tf_keras.Input(given[name].shape[1:]) for name in sorted(given)]
    target = tuple(inputs[params["feat_level_index"]].shape[1:3])
    maps = [network.resampled(each, target, f"input_{index}") for index, each in enumerate(inputs)]
    features = network.after_combining(network.combined(maps, "n"), "n")
    model = tf_keras.Model(inputs, features)
    after = "op_after_combine"
    scopes = {"n_combine": "", "n_depthwise": f"{after}/conv_op", "n_pointwise": f"{after}/conv_op"}
    _set_weights(model, {**scopes, "n_bn": f"{after}/bn"})
    found = model([given[name] for name in sorted(given)])
    np.testing.assert_allclose(found, goldens.wanted("layers", case)["y"], 1e-3, 1e-4)


@cases("after_combine_conv_bn_act", "after_combine_plain_conv")
def test_what_follows_a_sum_equals_the_reference(*, case):
    given = goldens.given("layers", case)["x"]
    inputs = tf_keras.Input(given.shape[1:])
    model = tf_keras.Model(inputs, _feature_network(**CASES[case]["params"]).after_combining(inputs, "n"))
    scopes = {"n": "conv_op", "n_depthwise": "conv_op", "n_pointwise": "conv_op", "n_bn": "bn"}
    _set_weights(model, scopes)
    np.testing.assert_allclose(model(given), goldens.wanted("layers", case)["y"], 1e-3, 1e-4)


def test_a_copy_of_a_sum_from_its_config_has_the_same_variables():
    layer = NodeFusion("channel_attn", name="sum")
    layer([tf.ones([1, 2, 2, 3]), tf.ones([1, 2, 2, 3])])
    copy = NodeFusion.from_config(layer.get_config())
    copy([tf.ones([1, 2, 2, 3]), tf.ones([1, 2, 2, 3])])
    assert [(v.name, v.shape) for v in copy.weights] == [(v.name, v.shape) for v in layer.weights]


@pytest.mark.slow
@pytest.mark.parametrize("case", OPTIONS)
def test_networks_with_other_settings_equal_the_reference(case):
    params, fact = dict(CASES[case]["params"]), CASES[case]["fact"]
    # Checkpoints of gradients save memory there, and change no number.
    others = ("base", "image_size", "grad_checkpoint")
    fields = {key: value for key, value in params.items() if key not in others}
    settings = goldens.settings(params["base"], params["image_size"], **fields)
    network = build_network(settings, settings.image_size, None)
    variables = automl_variables(network, settings)
    assert (len(variables), network.count_params()) == (fact["num_variables"], fact["num_parameters"])
    found = {f"{own.key}/.ATTRIBUTES/VARIABLE_VALUE": own for own in variables}
    for key, shape, name in fact["feature_and_head_variables"]:
        assert (found[key].name, list(found[key].variable.shape)) == (name, shape)
    goldens.set_deterministic_weights(network, settings)
    side, wanted = params["image_size"], goldens.wanted("layers", case)
    pixels = np.random.RandomState(0).standard_normal((1, side, side, 3)).astype(np.float32)
    codes, logits = network(pixels, training=False)
    for level, part in goldens.level_parts(settings, (side, side)):
        for kind, outputs in (("box", codes), ("cls", logits)):
            golden = np.asarray(wanted[f"{kind}_{level}"]).reshape(-1)
            np.testing.assert_allclose(goldens.sampled(outputs[:, part]), golden, 1e-3, 1e-3)
