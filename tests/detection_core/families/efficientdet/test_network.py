"""Networks, pieces of the feature network, and the segmentation head against google/automl's."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders.detector import configured_model
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.errors import ConfigError
from detection_core.families.efficientdet.checkpoint_names import automl_variables
from detection_core.families.efficientdet.losses import SEGMENTATION_LOSS
from detection_core.families.efficientdet.network import (
    FeatureNetwork,
    NodeFusion,
    build_network,
    pixel_classes,
    segmentation_loss,
)
from detection_core.ops.objects import new_truth
from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.structures import Batch
from tests.support import efficientdet_goldens as goldens
from tests.support.batches import images_of
from tests.support.cases import cases, refused
from tests.support.replicas import assert_prints_equal
from tests.support.served_requests import save_served


@pytest.mark.slow
@cases("efficientdet-d0", "efficientdet-lite0")
def test_forward_passes_equal_the_reference(*, name):
    _assert_forward(name, "net256", (256, 256))
    if name != "efficientdet-d0":
        return
    _assert_forward(name, "train256", (256, 256), training=True)
    network, settings = _network(name, (256, 256))
    _network.cache_clear()  # its statistics have moved
    found = {own: variable for _, own, variable in automl_variables(network, settings)}
    golden = goldens.arrays(f"{name}.forward")
    for scope in ("efficientnet-b0/stem/tpu_batch_normalization", "class_net/class-0-bn-3"):
        key = f"train256/bn_after/{scope}/moving_mean".replace("/stem/", "/stem_1/")
        np.testing.assert_allclose(found[f"{scope}/moving_mean"], golden[key], 1e-4, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"efficientdet-{name}" for name in ("d0", "d1", "d2", "lite0", "lite1")])
def test_forward_passes_on_odd_sizes_and_variables_equal_the_reference(name):
    _assert_forward(name, "net200x296", (200, 296))
    goldens.assert_variables(name, *_network(name, (200, 296)))
    _network.cache_clear()


# google/automl's README, in millions; lite without the classes' own. The settings of those between are
# compared in tests/detection_core/config/messages/test_efficientdet.py.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "millions"), [("d3", 12.0), ("d7x", 77.0)])
def test_networks_have_as_many_parameters_as_published(name, millions):
    settings = goldens.settings(f"efficientdet-{name}")
    network = build_network(settings, (128, 128), None)
    assert network.count_params() / 1e6 == pytest.approx(millions, rel=0.02)


@functools.cache
def _network(name, size):
    settings = goldens.settings(name)
    network = build_network(settings, size, None)
    goldens.set_deterministic_weights(network, settings)
    return network, settings


def _assert_forward(name, key, size, training=False):
    network, settings = _network(name, size)
    pixels = np.random.RandomState(0).standard_normal((1, *size, 3)).astype(np.float32)
    heads, golden = network(pixels, training=training), goldens.arrays(f"{name}.forward")
    goldens.assert_levels(settings, size, heads, golden, key + "/{kind}/level_{level}")


@pytest.mark.slow
def test_replicas_share_the_statistics_of_their_images_where_that_is_asked_for():
    """Outputs, moving means and gradients of two replicas are those of the whole batch on one."""
    assert_prints_equal("""
        from detection_core.families.efficientdet.settings import settings_of
        from detection_core.families.efficientdet.network import build_network
        from tests.support import efficientdet_goldens as goldens

        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # run once
        pixels = np.random.RandomState(0).standard_normal((4, 64, 64, 3)).astype(np.float32)
        pixels[2:] = 3 * pixels[2:] + 1  # a replica by itself has other statistics

        def trained(devices, shared):
            strategy = tf.distribute.MirroredStrategy(devices)
            fields = {"fpn_cell_repeats": 1, "box_class_repeats": 1, "num_classes": 3, "max_level": 5}
            message = goldens.message("efficientdet-d0", 64, sync_batch_norm=shared, **fields)
            with strategy.scope():
                network = build_network(settings_of(message), (64, 64), None)
                goldens.set_deterministic_weights(network, settings_of(message))

            def replica(images):
                with tf.GradientTape() as tape:
                    codes, logits = network(images, training=True)
                    loss = tf.reduce_sum(codes**2) + tf.reduce_sum(tf.sigmoid(logits))
                found = tape.gradient(loss, network.get_layer("backbone_stem").trainable_variables[0])
                everywhere = tf.distribute.get_replica_context().all_reduce("sum", found)
                return codes, logits, everywhere

            share = 4 // len(devices)
            images = strategy.experimental_distribute_values_from_function(
                lambda context: tf.constant(pixels[context.replica_id_in_sync_group * share :][:share])
            )
            outputs = tf.function(lambda: strategy.run(replica, (images,)))()
            codes, logits, gradient = map(strategy.experimental_local_results, outputs)
            mean = network.get_layer("bifpn_0_0_bn").moving_mean.numpy()
            return [np.concatenate(codes), np.concatenate(logits), gradient[0].numpy(), mean]

        one, two = ["/cpu:0"], ["/cpu:0", "/cpu:1"]
        whole, halves = trained(one, False), trained(two, True)
        for found, again in zip(trained(one, True), whole):
            np.testing.assert_array_equal(found, again)  # one replica: to the bit
        for found, wanted in zip(halves, whole):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
        print("equal")
    """)


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


BOTH = ["object_detection", "segmentation"]
SMALL = {"heads": BOTH, "max_level": 6, "num_classes": 2}
CASES = goldens.cases("layers")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["segmentation_d0_both", "segmentation_d0_seg5_relu6"])
def test_logits_and_variables_equal_the_reference(case):
    params, fact = CASES[case]["params"], CASES[case]["fact"]
    fields = {key: params[key] for key in ("act_type", "seg_num_classes") if key in params}
    settings = goldens.settings("efficientdet-d0", 128, heads=BOTH, **fields)
    network = build_network(settings, (128, 128), None)
    goldens.set_deterministic_weights(network, settings)
    pixels = np.random.RandomState(0).standard_normal((1, 128, 128, 3)).astype(np.float32)
    codes, logits, segmentation = network(pixels, training=False)
    wanted = goldens.wanted("layers", case)
    np.testing.assert_allclose(goldens.sampled(segmentation), wanted["segmentation"], 1e-3, 1e-3)
    variables = {own.key: own for own in automl_variables(network, settings)}
    for key, shape, name in fact["seg_variables"]:
        own = variables[key.partition("/.ATTRIBUTES")[0]]
        assert (own.name, list(own.variable.shape)) == (name, shape)
    if "cls_7" in wanted:
        assert network.count_params() == fact["num_parameters"]
        np.testing.assert_allclose(
            logits[0, -9:].numpy().reshape(-1), wanted["cls_7"].reshape(-1), 1e-3, 1e-3
        )
        np.testing.assert_allclose(codes[0, -9:].numpy().reshape(-1), wanted["box_7"].reshape(-1), 1e-3, 1e-3)


def _truth(side=128):
    masks = np.zeros((2, 2, side, side), np.uint8)
    masks[0, 0, : side // 2], masks[0, 1, :, : side // 4], masks[1, 1] = 1, 1, 1
    return new_truth(
        boxes=tf.constant([[[0.0, 0.0, 0.5, 1.0], [0.0, 0.0, 1.0, 0.25]]] * 2),
        classes=tf.constant([[0, 1], [0, 1]]), weights=tf.ones([2, 2]),
        valid=tf.constant([[True, True], [True, False]]), masks=tf.constant(masks),
    )  # fmt: skip


def test_a_pixel_has_the_class_of_its_object_and_the_loss_is_the_mean_over_pixels():
    settings = goldens.settings("efficientdet-d0", 128, heads=BOTH, num_classes=2)
    classes = pixel_classes(settings, _truth(), (32, 32)).numpy()
    assert np.all(classes[0, :16, 8:] == 1) and np.all(classes[0, :, :8] == 2)
    assert np.all(classes[0, 16:, 8:] == 0) and not classes[1].any()
    logits = tf.constant([[[[0.0, 0.0], [100.0, 0.0]]]])
    np.testing.assert_allclose(segmentation_loss(logits, tf.constant([[[0, 0]]])), np.log(2) / 2)


def test_training_needs_masks_and_a_class_for_each_of_the_objects():
    settings = goldens.settings("efficientdet-d0", 128, heads=BOTH)
    unmasked = _truth()._replace(masks=tf.zeros([2, 2, 0, 0], tf.uint8))
    refused(ConfigError, "load_instance_masks: true", pixel_classes, settings, unmasked, (32, 32))
    refused(ConfigError, "seg_num_classes: 91", pixel_classes, settings, _truth(), (32, 32))


@pytest.mark.slow
def test_the_map_of_classes_is_an_output_of_the_saved_model(tmp_path):
    config = TrainEvalPipelineConfig()
    config.model.efficientdet.CopyFrom(goldens.small_message(**SMALL))
    configured = configured_model(config)
    detector = configured.build(seed=0)
    save_served(detector, configured.build_resizer(), str(tmp_path))
    pixels = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3)).astype(np.uint8)
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](tf.constant(pixels))
    expected = detector.serving_outputs(images_of(pixels))["segmentation_logits"]
    assert np.ptp(expected.numpy()) > 0
    np.testing.assert_allclose(served["segmentation_logits"], expected, atol=1e-4)


def test_a_detector_with_both_heads_trains_and_serves_both():
    detector, images = goldens.small_detector(**SMALL), images_of(np.zeros((2, 64, 64, 3)))
    losses = detector.losses(Batch(images, _truth(64)), True)
    assert float(losses[SEGMENTATION_LOSS]) > 0 and np.isfinite(losses[TOTAL_LOSS])
    assert detector.serving_outputs(images)["segmentation_logits"].shape == (2, 16, 16, 3)
