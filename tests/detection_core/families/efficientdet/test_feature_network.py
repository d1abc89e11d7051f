"""Pieces of the feature network, and networks with other settings, against google/automl's."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.families.efficientdet.checkpoint_names import automl_variables
from detection_core.families.efficientdet.network import FeatureNetwork, NodeFusion, build_network
from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases

CASES = goldens.cases("layers")


def _feature_network(**fields):
    settings = goldens.settings(fpn_num_filters=4, **fields)
    return FeatureNetwork(settings, NetworkLayers(hyperparams=LayerHyperparams()))


def _assert_outputs(case, inputs, outputs, scopes):
    """A piece gives what the reference's gives: `scopes` is our layer's name to the reference's path."""
    model, given = tf_keras.Model(inputs, outputs), goldens.given("layers", case)
    for layer in model.layers:
        for variable in layer.weights:
            leaf = variable.name.rpartition("/")[2].partition(":")[0]
            leaf = f"pointwise_{leaf}" if layer.name.endswith("pointwise") and leaf == "kernel" else leaf
            key = "/".join(part for part in (scopes[layer.name], leaf) if part)
            variable.assign(goldens.deterministic_weight(key, tuple(variable.shape)))
    found = model([given[name] for name in sorted(given)])
    np.testing.assert_allclose(found, goldens.wanted("layers", case)["y"], 1e-3, 1e-4)


def _inputs(case):
    return [tf_keras.Input(each.shape[1:]) for _, each in sorted(goldens.given("layers", case).items())]


@cases(*[name for name, case in CASES.items() if name.startswith("resample") and "error" not in case])
def test_resampling_equals_the_reference(*, case):
    params, (inputs,) = CASES[case]["params"], _inputs(case)
    names = {"apply_bn": "apply_bn_for_resampling"}
    fields = {names.get(key, key): value for key, value in params.items() if not key.startswith("target")}
    fields.setdefault("apply_bn_for_resampling", False)
    size = params["target_hw"] or [-(-side // 2) for side in inputs.shape[1:3]]
    outputs = _feature_network(**fields).resampled(inputs, tuple(size), "r")
    _assert_outputs(case, inputs, outputs, {"r": "conv2d", "r_bn": "bn"})


@cases(*[name for name in CASES if name.startswith("fuse_")])
def test_sums_equal_the_reference(*, case):
    params, inputs = CASES[case]["params"], _inputs(case)
    network = _feature_network(fpn_weight_method=params["weight_method"])
    target = tuple(inputs[params["feat_level_index"]].shape[1:3])
    maps = [network.resampled(each, target, f"input_{index}") for index, each in enumerate(inputs)]
    conv, norm = "op_after_combine/conv_op", "op_after_combine/bn"
    scopes = {"n_combine": "", "n_depthwise": conv, "n_pointwise": conv, "n_bn": norm}
    _assert_outputs(case, inputs, network.after_combining(network.combined(maps, "n"), "n"), scopes)


@cases("after_combine_conv_bn_act", "after_combine_plain_conv")
def test_what_follows_a_sum_equals_the_reference(*, case):
    (inputs,) = _inputs(case)
    outputs = _feature_network(**CASES[case]["params"]).after_combining(inputs, "n")
    scopes = {"n": "conv_op", "n_depthwise": "conv_op", "n_pointwise": "conv_op", "n_bn": "bn"}
    _assert_outputs(case, inputs, outputs, scopes)


def test_maps_of_which_one_side_shrinks_are_refused_and_a_copied_sum_has_the_same_variables():
    for size in ((4, 8), (4, 4)):
        with pytest.raises(ValueError, match="one side shrinks"):
            _feature_network().resampled(tf_keras.Input((8, 4, 4)), size, "r")
    layer = NodeFusion("channel_attn", name="sum")
    copy = NodeFusion.from_config(layer.get_config())
    for each in (layer, copy):
        each([tf.ones([1, 2, 2, 3]), tf.ones([1, 2, 2, 3])])
    assert [(v.name, v.shape) for v in copy.weights] == [(v.name, v.shape) for v in layer.weights]


@pytest.mark.slow
@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("network_option")])
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
    goldens.assert_levels(settings, (side, side), network(pixels, training=False), wanted, "{kind}_{level}")
