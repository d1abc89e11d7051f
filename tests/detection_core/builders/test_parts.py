"""Parts of a detector, built of their messages."""

import dataclasses
import functools
import importlib
import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.builders import detector_parts, heads, oneof
from detection_core.builders import detector_parts as builders
from detection_core.builders.anchor_grids import grid_of_pairs, listed_grid
from detection_core.config.check import check_message
from detection_core.config.messages.detector_parts import INITIALIZER_NAMES
from detection_core.errors import ModelError
from detection_core.parts.heads import ConvolutionalHead, WeightSharedHead
from detection_core.parts.layers import layer_hyperparams as layers
from detection_core.parts.losses import replace_nan_targets
from detection_core.protos import box_predictor_pb2, hyperparams_pb2, losses_pb2
from detection_core.protos.anchor_generator_pb2 import AnchorGenerator
from detection_core.protos.box_coder_pb2 import BoxCoder
from detection_core.protos.calibration_pb2 import CalibrationConfig
from detection_core.protos.flexible_grid_anchor_generator_pb2 import AnchorGrid
from detection_core.protos.grid_anchor_generator_pb2 import GridAnchorGenerator
from detection_core.protos.matcher_pb2 import Matcher
from detection_core.protos.region_similarity_calculator_pb2 import RegionSimilarityCalculator
from tests.support.cases import cases, config_refused, refused
from tests.support.configs import checked, parsed
from tests.support.golden_cases import cases_of, load_cases

PARTS = "detection_core/parts"
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
CASES = cases_of(f"{PARTS}/anchors", "anchor_generators")
BUILT = [case for case in CASES.values() if case.outputs]


def _build(text):
    return detector_parts.build_anchor_generator(checked(parsed(AnchorGenerator, text)))


@cases(*BUILT)
def test_golden_anchors(*, case):
    generator = _build(case.config)
    assert generator.num_anchors_per_location() == case.params["num_anchors_per_location"]
    shapes = [tuple(shape) for shape in case.params["feature_map_shape_list"]]
    anchors = generator.generate(shapes, case.params.get("im_height", 1), case.params.get("im_width", 1))
    assert len(anchors) == len(case.outputs)
    for index, boxes in enumerate(anchors):
        np.testing.assert_allclose(boxes, case.outputs[f"anchors_{index}"], **TOLERANCE)


def test_what_the_reference_refuses_is_refused():
    assert CASES["multiscale_normalized_without_size"].error and CASES["wrong_number_of_maps"].error
    generator = _build("multiscale_anchor_generator { min_level: 3 max_level: 3 aspect_ratios: 1 }")
    refused(ValueError, "image size", generator.generate, [(4, 4)], 1, 1)
    for arm in detector_parts.ANCHOR_GENERATORS:
        ratios = "aspect_ratios: 1" if arm == "multiscale_anchor_generator" else ""
        refused(ModelError, "feature maps", _build(f"{arm} {{ {ratios} }}").generate, [(2, 2)] * 9, 32, 32)


def test_scales_and_layers_end_with_the_shorter_list():
    """As in `create_ssd_anchors` of the Object Detection API, which zips the two."""
    text = "ssd_anchor_generator { num_layers: %d scales: [0.1, 0.4, 0.9] aspect_ratios: 1 }"
    maps = [(4, 4), (2, 2), (1, 1)]
    whole = _build(text % 3).generate(maps, 32, 32)
    for count in (2, 6):
        generator = _build(text % count)
        assert generator.num_anchors_per_location() == [3, 2, 2][:count]
        for laid, wanted in zip(generator.generate(maps[:count], 32, 32), whole[:count], strict=True):
            np.testing.assert_allclose(laid, wanted, rtol=1e-6)


def test_a_grid_of_pairs_is_a_list_of_them():
    pairs = parsed(GridAnchorGenerator, "height: 1 width: 1 scales: [8, 16] aspect_ratios: [1, 4]")
    text = "base_sizes: [8, 16, 8, 16] aspect_ratios: [1, 1, 4, 4] height_stride: 16 width_stride: 16"
    assert grid_of_pairs(pairs) == listed_grid(parsed(AnchorGrid, text))


CODED = [c for c in cases_of(f"{PARTS}/box_coders", "box_coders").values() if c.config]


@cases(*CODED)
def test_golden_codes(*, case):
    coder = detector_parts.build_box_coder(checked(parsed(BoxCoder, case.config)))
    assert coder.code_size == case.params["code_size"]
    keypoints = (case.inputs["keypoints"],) if "keypoints" in case.inputs else ()
    anchors = case.inputs["anchors"]
    encoded = coder.encode(case.inputs["boxes"], anchors, *keypoints)
    np.testing.assert_allclose(encoded, case.outputs["encoded"], **TOLERANCE)
    decoded = coder.decode(case.inputs["codes"], anchors)
    np.testing.assert_allclose(decoded, case.outputs["decoded_codes"], **TOLERANCE)
    if "round_trip" in case.outputs:
        np.testing.assert_allclose(coder.decode(encoded, anchors), case.outputs["round_trip"], **TOLERANCE)
    if keypoints:
        points = coder.decode_keypoints(case.inputs["codes"], anchors)
        np.testing.assert_allclose(points, case.outputs["decoded_keypoints"], **TOLERANCE)


MATCHED = [c for c in cases_of(f"{PARTS}/matchers", "matchers").values() if "match_results" in c.outputs]


def _expected(case, valid):
    results = case.outputs["match_results"]
    if not case.config.startswith("bipartite"):
        return results
    # The reference permutes rows, valid ones first, and gives places in that order; ours are rows.
    rows = np.argsort(~valid, kind="stable")
    return np.where(results >= 0, rows[np.maximum(results, 0)], results)


@cases(*MATCHED)
def test_golden_matches(*, case):
    similarity = case.inputs["similarity"]
    valid = case.inputs.get("valid_rows", np.ones(len(similarity), bool))
    found = detector_parts.build_matcher(checked(parsed(Matcher, case.config))).match(
        similarity[np.newaxis], valid[np.newaxis]
    )
    np.testing.assert_array_equal(found[0], _expected(case, valid))


ALIKE = [c for c in cases_of("detection_core/ops", "region_similarity").values() if c.config]


@cases(*ALIKE)
def test_golden_similarity(*, case):
    similarity = detector_parts.build_similarity(checked(parsed(RegionSimilarityCalculator, case.config)))
    found = similarity(case.inputs["boxes1"], case.inputs["boxes2"]).numpy()
    # Ground truth has score 1; the golden's rows have their own scores.
    scores = case.inputs.get("scores_of_boxes1", np.ones(len(found), np.float32))
    # The reference divides by the area of an empty box, 0 / 0; ours shares nothing with it.
    expected = np.nan_to_num(case.outputs["similarity"], nan=0.0)
    np.testing.assert_allclose(found * scores[:, np.newaxis], expected, rtol=1e-5, atol=1e-5)


LOSSES = cases_of(f"{PARTS}/losses", "losses")
CALLED = [case for case in LOSSES.values() if "prediction" in case.inputs and case.config]
MINED = [case for case in LOSSES.values() if "location_losses" in case.inputs]
LOSS_TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}
PAIR = "classification_loss { weighted_sigmoid {} } localization_loss { weighted_smooth_l1 {} } "
_message = functools.partial(parsed, losses_pb2.Loss)


def _loss(case):
    message = _message(case.config)
    if message.HasField("classification_loss"):
        return builders.build_classification_loss(message.classification_loss)
    loss = builders.build_localization_loss(message.localization_loss)
    # The golden of L1 was taken before the sum over the code, with a weight for each of its numbers.
    if case.name != "l1":
        return loss
    return lambda found, target, weights: loss(found[..., tf.newaxis], target[..., tf.newaxis], weights)


def _arguments(case):
    """Prediction, target and weights with the options of the reference's call applied."""
    prediction, target, weights = (tf.constant(case.inputs[k]) for k in ("prediction", "target", "weights"))
    if "class_indices" in case.params:
        weights *= tf.reduce_sum(tf.one_hot(list(case.params["class_indices"]), target.shape[-1]), axis=0)
    if "losses_mask" in case.params:
        kept = np.reshape(case.params["losses_mask"], [-1] + [1] * (weights.shape.rank - 1))
        weights = tf.where(kept, weights, 0.0)
    return prediction, target, weights


@cases(*CALLED)
def test_golden_loss_and_gradient(*, case):
    loss, (prediction, target, weights) = _loss(case), _arguments(case)
    with tf.GradientTape() as tape:
        tape.watch(prediction)
        if case.params.get("ignore_nan_targets"):
            target = replace_nan_targets(prediction, target)
        value = loss(prediction, target, weights)
    expected = case.outputs["loss"].reshape(value.shape)
    np.testing.assert_allclose(value, expected, **LOSS_TOLERANCE)
    np.testing.assert_allclose(tape.gradient(value, prediction), case.outputs["grad"], **LOSS_TOLERANCE)


def test_every_arm_has_a_golden():
    for found, arms in (
        (BUILT, detector_parts.ANCHOR_GENERATORS),
        (CODED, detector_parts.BOX_CODERS),
        (MATCHED, detector_parts.MATCHERS),
        (ALIKE, detector_parts.SIMILARITIES),
    ):
        assert {case.config.split()[0] for case in found} == set(arms)
    messages = [_message(case.config) for case in CALLED]
    for kind in ("classification_loss", "localization_loss"):
        arms = {getattr(message, kind).WhichOneof(kind) for message in messages} - {None}
        assert arms | {"registered"} == set(getattr(builders, f"{kind.upper()}ES"))


@cases(*MINED)
def test_golden_miner(*, case):
    miner = builders.build_hard_example_miner(_message(case.config))
    inputs = case.inputs
    matched = inputs.get("match_results", np.zeros(inputs["cls_losses"].shape, np.int32))
    found = miner.mine(inputs["location_losses"], inputs["cls_losses"], inputs["decoded_boxes"], matched)
    np.testing.assert_allclose(found.localization, case.outputs["mined_location_loss"], **LOSS_TOLERANCE)
    np.testing.assert_allclose(found.classification, case.outputs["mined_cls_loss"], **LOSS_TOLERANCE)


def test_losses_of_a_detector_and_defaults_of_the_miner():
    facts = LOSSES["hard_example_miner_defaults"].facts["value"]
    miner = builders.build_hard_example_miner(_message("hard_example_miner {}"))
    assert miner.num_hard_examples == facts["num_hard_examples"]
    assert miner.iou_threshold == pytest.approx(facts["iou_threshold"])
    assert losses_pb2.HardExampleMiner.LossType.Value(miner.loss_type) == facts["loss_type"]
    assert miner.max_negatives_per_positive == facts["max_negatives_per_positive"]
    losses = builders.build_losses(_message(PAIR + "classification_weight: 2 localization_weight: 0.5"))
    assert (losses.classification_weight, losses.localization_weight) == (2.0, 0.5)
    assert losses.hard_example_miner is losses.random_example_sampler is None
    sampled = builders.build_losses(_message(PAIR + "random_example_sampler {}"))
    assert sampled.random_example_sampler.positive_fraction == pytest.approx(0.01)

    text = PAIR.replace("sigmoid {", "softmax { logit_scale: 0")
    caught = config_refused("", check_message, _message(text), "loss")
    assert caught.where == "loss.classification_loss.weighted_softmax.logit_scale"


def _head(text):
    return heads.build_head(parsed(box_predictor_pb2.BoxPredictor, text))


def test_defaults_of_options_are_those_of_the_schema():
    for message, options in (
        (box_predictor_pb2.ConvolutionalBoxPredictor(), ConvolutionalHead()),
        (box_predictor_pb2.WeightSharedConvolutionalBoxPredictor(), WeightSharedHead()),
    ):
        for name in dataclasses.asdict(options).keys() - {"score_converter", "survival_probability"}:
            assert getattr(options, name) == pytest.approx(getattr(message, name)), name


def test_settings_of_heads_are_read():
    plan = _head(
        "convolutional_box_predictor { min_depth: 2 max_depth: 9 num_layers_before_predictor: 1"
        " use_dropout: false dropout_keep_probability: 0.5 kernel_size: 3 class_prediction_bias_init: -1"
        " use_depthwise: true box_encodings_clip_range { min: -8 max: 9 }"
        " conv_hyperparams { activation: NONE } }"
    )
    assert isinstance(plan.head, ConvolutionalHead)
    assert plan.head == ConvolutionalHead(
        min_depth=2, max_depth=9, num_layers_before_predictor=1, kernel_size=3, use_depthwise=True,
        use_dropout=False, dropout_keep_probability=0.5, class_prediction_bias_init=-1.0,
    )  # fmt: skip
    assert plan.code_clip == (-8.0, 9.0)
    assert plan.hyperparams.activation == "none"
    plan = _head(
        "weight_shared_convolutional_box_predictor { depth: 32 num_layers_before_predictor: 2 kernel_size: 1"
        " share_prediction_tower: true use_depthwise: true use_dropout: true score_converter: SIGMOID"
        " apply_conv_hyperparams_to_heads: true apply_conv_hyperparams_pointwise: true }"
    )
    assert isinstance(plan.head, WeightSharedHead)
    assert plan.head == WeightSharedHead(
        depth=32, num_layers_before_predictor=2, kernel_size=1, share_prediction_tower=True,
        use_depthwise=True, use_dropout=True, dropout_keep_probability=pytest.approx(0.8),
        score_converter="sigmoid", apply_conv_hyperparams_to_heads=True,
        apply_conv_hyperparams_pointwise=True,
    )  # fmt: skip
    assert plan.code_clip == (-math.inf, math.inf)


HYPERPARAMS = load_cases(__file__, "hyperparams")
# Settings that the reference passes over in silence and that are refused here.
REFUSED = {"group_norm": "no detector here is made with"}
_hyperparams = functools.partial(parsed, hyperparams_pb2.Hyperparams)


@cases(*sorted(set(HYPERPARAMS) - set(REFUSED)))
def test_hyperparams_are_those_of_the_reference(*, name):
    wanted = HYPERPARAMS[name].facts["value"]
    found = heads.build_hyperparams(checked(_hyperparams(HYPERPARAMS[name].config)))
    assert found.activation == (wanted["activation"] or "none")
    assert (found.use_bias, found.force_use_bias) == (wanted["use_bias"], wanted["force_use_bias"])
    assert (found.batch_norm is not None) == wanted["use_batch_norm"]
    if found.batch_norm is not None:
        assert found.batch_norm.synchronized == wanted["use_sync_batch_norm"]
    for field, value in wanted["batch_norm_params"].items():
        assert getattr(found.batch_norm, field) == pytest.approx(value)
    assert (found.regularizer is None) == (wanted["regularizer"] is None)
    if found.regularizer is not None:
        # The reference's factor is of the plain sum of squares, the config's weight of half of it.
        total = {"L1": 4.0, "L2": 10.0}[wanted["regularizer"]["class_name"]] * wanted["regularizer_weight"]
        weights = tf.constant([1.0, -3.0])
        np.testing.assert_allclose(layers.regularizer_loss(found.regularizer, weights), total, rtol=1e-5)
    _check_initializer(found.initializer.build(0, "layer/kernel"), wanted["initializer"])


def _check_initializer(built, wanted):
    if not isinstance(wanted, dict):
        assert type(built) is type(tf_keras.initializers.get(wanted))
        return
    name = wanted["class_name"]
    assert type(built).__name__ == ("GlorotUniform" if name == "NoneType" else name)
    settings = {key: value for key, value in wanted.items() if key not in ("class_name", "seed", "dtype")}
    assert {key: built.get_config()[key] for key in settings} == pytest.approx(settings)


def test_what_has_no_effect_is_refused_and_frozen_norms_are_built():
    for name, message in REFUSED.items():
        given = _hyperparams(HYPERPARAMS[name].config)
        config_refused(message, check_message, given, "conv_hyperparams")
    text = "batch_norm { train: false decay: 0.5 } regularizer { l1_regularizer { weight: 2 } }"
    found = heads.build_hyperparams(_hyperparams(text))
    norm = layers.BatchNormOptions(momentum=0.5, epsilon=pytest.approx(0.001), train=False)
    assert found.batch_norm == norm
    assert found.regularizer == layers.Regularizer(kind="l1", weight=2.0)


def test_the_check_knows_the_initializers_of_tf_keras_that_fill_a_kernel():
    registry = importlib.import_module("tf_keras.src.initializers")
    registry.populate_deserializable_objects()
    fit = set()
    for name in registry.LOCAL.ALL_OBJECTS:
        try:
            type(tf_keras.initializers.get(name))()((3, 3, 2, 4))
            fit.add(name)
        except (ValueError, NotImplementedError):
            continue
    assert fit == INITIALIZER_NAMES


def test_a_oneof_gives_a_value_or_its_place():
    message = BoxCoder()
    config_refused(r"^a\.b: .*found none", check_message, message, "a.b")
    message.square_box_coder.y_scale = 3
    build = oneof.oneof_builder("box_coder_oneof", {"square_box_coder": lambda arm: arm.y_scale})
    assert build(message) == 3
    message.square_box_coder.y_scale = 0
    pattern = r"^a\.b\.square_box_coder\.y_scale: expected a number above 0"
    config_refused(pattern, check_message, message, "a.b")
    calibrated = CalibrationConfig()
    calibrated.sigmoid_calibration.SetInParent()
    config_refused(r"^c\.sigmoid_calibration: .*use function_approximation", check_message, calibrated, "c")
