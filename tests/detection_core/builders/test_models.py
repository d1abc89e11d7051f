"""Detectors of a config, at one input size or several, and the parts around their network."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from google.protobuf.message_factory import GetMessageClass

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.builders import augment, backbones, detector_parts, heads, input_pipeline, optimizer
from detection_core.builders.backbones import BACKBONES, register_backbone
from detection_core.builders.detector import (
    build_detector,
    build_multi_scale_model,
    build_quantization_options,
    configured_model,
    find_quantization_options,
    scaled_sizes,
)
from detection_core.builders.detector_parts import CALIBRATIONS, build_calibration
from detection_core.builders.input_pipeline import IMAGE_RESIZERS, build_image_resizer, model_image_resizer
from detection_core.config.check import check_detector, check_message, check_quantization, find_refused
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.messages.extractors import REGISTERED, Extractor, register_extractor
from detection_core.config.messages.table import rules_of
from detection_core.config.metric_names import KEYPOINT_SET
from detection_core.config.paths.overrides import apply_overrides
from detection_core.data.resize import FixedShapeResizer, KeepAspectRatioResizer
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.detectors.family import FAMILIES, Family, family_name, register_family
from detection_core.families.ssd.network import NECKS, build_feature_maps
from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.protos import post_processing_pb2
from detection_core.protos.calibration_pb2 import CalibrationConfig
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.ssd_pb2 import SsdFeatureExtractor
from detection_core.training.multi_scale import resized
from tests.support.cases import cases, config_refused, refused
from tests.support.configs import CENTER, RETINA, TWO_STAGE, assert_any, checked, find_in, parsed
from tests.support.golden_cases import cases_of
from tests.support.plain_backbone import PLAIN
from tests.support.precision_models import MODELS, batch_for
from tests.support.random_messages import MESSAGES
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_training import config_text


def _plain(inputs, layers, shape):
    """Levels whose layers have names that end in other numbers than theirs."""
    features, levels = inputs, {}
    for level in range(1, 6):
        features = layers.conv(f"backbone_{9 - level}", shape.min_depth, 3, stride=2)(features)
        levels[level] = features
    return Endpoints(levels)


@pytest.fixture
def plain():
    entry = backbones.BackboneEntry(
        family="plain", preprocessing="unit_range", hyperparams=LayerHyperparams(), build=_plain
    )
    register_backbone("plain", entry)
    register_extractor("ssd_plain_fpn", Extractor(backbone="plain", neck="fpn"))
    yield entry
    BACKBONES.pop("plain", None)
    REGISTERED.pop("ssd_plain_fpn", None)


def _maps():
    text = "type: 'ssd_plain_fpn' min_depth: 8 fpn { min_level: 3 max_level: 6 additional_layer_depth: 8 }"
    layers = NetworkLayers(hyperparams=LayerHyperparams())
    return build_feature_maps(parsed(SsdFeatureExtractor, text), tf_keras.Input((64, 64, 3)), layers, "e")


def test_a_backbone_from_outside_gets_a_neck_and_names_are_given_once(plain):
    assert [tuple(features.shape[1:]) for features in _maps()] == [(8, 8, 8), (4, 4, 8), (2, 2, 8), (1, 1, 8)]
    BACKBONES.pop("plain", None)
    config_refused(r"^e\.type: expected a backbone 'plain', .*register_backbone", _maps)
    register_backbone("plain", plain)
    refused(ValueError, "'plain', which is taken", register_backbone, "plain", plain)
    fpn, pan = (Extractor(backbone="plain", neck=neck) for neck in ("fpn", "pan"))
    refused(ValueError, "'ssd_plain_fpn', which is taken", register_extractor, "ssd_plain_fpn", fpn)
    message = "expected a neck of extra_layers, fpn, bifpn, found 'pan'"
    refused(ValueError, message, register_extractor, "ssd_plain_pan", pan)


OR = " or ".join(FAMILIES)


@cases(
    ("experimental_model { name: 'x' }", f"expected {OR}, found x"),
    ("", f"expected {OR}, found none: set one"),
    ("ssd {}", "model.ssd.num_classes: .*classes without background, found none; set it, or train"),
    ("ssd { num_classes: 2 }", "model.ssd.box_coder: expected one of"),
)
def test_what_cannot_be_built_is_refused(*, text, match):
    config_refused(match, check_detector, parsed(TrainEvalPipelineConfig, f"model {{ {text} }}"))


def test_the_family_gets_its_message_its_path_and_the_seed():
    family = Family(
        name="toy", build=lambda message, where, seed: (message.name, where, seed), loss_names={},
        describe=lambda message, detector: None, input_size=lambda message: (8, 8),
    )  # fmt: skip
    register_family(family)
    text = 'experimental_model { name: "toy" num_classes: 1 }'
    try:
        built = build_detector(parsed(DetectionModel, text), seed=3)
    finally:
        FAMILIES.pop("toy", None)
    assert built == ("toy", "model.experimental_model", 3)


CONFIG = parse_pipeline_config(config_text(backbone=PLAIN))


def test_the_model_of_a_config_says_what_it_is_and_builds_its_parts():
    model = configured_model(CONFIG)
    assert (model.architecture, model.extractor) == ("ssd", PLAIN)
    assert model.family.name == "ssd" and model.resizer_name == "fixed_shape_resizer"
    assert model.build_resizer() == FixedShapeResizer(height=64, width=64)
    detector = model.build(seed=None)
    assert detector.num_classes == 2
    assert PLAIN in model.describe(detector).summary
    # Models are compared, and the rest of their configs is not.
    longer = apply_overrides(CONFIG, {"train_config.num_steps": 9})
    other = apply_overrides(CONFIG, {"model.ssd.num_classes": 3})
    assert configured_model(longer) == configured_model(CONFIG) != configured_model(other)
    model = configured_model(TrainEvalPipelineConfig())
    assert (model.architecture, model.resizer_name) == ("", "none")


def _build(text):
    return build_image_resizer(checked(parsed(ImageResizer, text), "image_resizer"))


def test_fields_are_the_message_s_or_the_schema_s():
    for arm in IMAGE_RESIZERS:
        assert _build(f"{arm} {{}}") is not None
    assert _build("fixed_shape_resizer {}") == FixedShapeResizer(height=300, width=300)
    assert _build("keep_aspect_ratio_resizer {}") == KeepAspectRatioResizer(
        min_dimension=600, max_dimension=1024
    )
    found = _build(
        "keep_aspect_ratio_resizer { min_dimension: 6 max_dimension: 8 resize_method: AREA "
        "pad_to_max_dimension: true per_channel_pad_value: [1, 2, 3] }"
    )
    assert found == KeepAspectRatioResizer(
        min_dimension=6, max_dimension=8, resize_method="AREA", pad_to_max_dimension=True,
        per_channel_pad_value=(1.0, 2.0, 3.0),
    )  # fmt: skip
    for text, message in (
        ("conditional_shape_resizer { condition: INVALID }", "GREATER or SMALLER, found INVALID"),
        ("pad_to_multiple_resizer { multiple: -4 }", "from 1 to 1,024, found -4"),
    ):
        assert config_refused(message, _build, text).where.startswith("image_resizer")


def test_the_resizer_of_a_model_is_found_in_any_kind_and_a_missing_one_named():
    for kind in ("ssd", "faster_rcnn", "center_net"):
        text = f"{kind} {{ image_resizer {{ fixed_shape_resizer {{ height: 4 width: 5 }} }} }}"
        assert model_image_resizer(parsed(DetectionModel, text)) == FixedShapeResizer(height=4, width=5)
    message = "^model: expected one of .*ssd, .*efficientdet, found none"
    config_refused(message, check_message, DetectionModel(), "model")
    problems = find_in(parsed(DetectionModel, "ssd {}"), "model")
    assert_any(problems, r"^model\.ssd\.image_resizer: expected one of .*found none")


CASES = cases_of("detection_core/ops", "calibration")
BUILT = [case for case in CASES.values() if case.outputs]


def _calibration_build(text):
    return build_calibration(checked(parsed(CalibrationConfig, text)))


def test_goldens_points_out_of_order_and_what_the_reference_refuses(caplog):
    for case in BUILT:
        found = _calibration_build(case.config)(case.inputs["scores"])
        expected = case.outputs["calibrated"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=case.name)
    assert {case.config.split()[0] for case in BUILT} == set(CALIBRATIONS)
    _calibration_build(CASES["function_approximation_unsorted"].config)
    assert "rising" in caplog.text
    # A field that the schema does not have at all is a matter of parsing.
    for case in CASES.values():
        if case.error and case.error != "ParseError":
            config_refused("", _calibration_build, case.config)


SUPPRESSION = cases_of("detection_core/ops", "nms")
CONVERTED = [case for case in SUPPRESSION.values() if "logits" in case.inputs]
_message = functools.partial(parsed, post_processing_pb2.PostProcessing)


@cases(*CONVERTED)
def test_golden_score_conversion(*, case):
    found = detector_parts.build_score_converter(_message(case.config))(case.inputs["logits"])
    np.testing.assert_allclose(found, case.outputs["scores"], rtol=1e-4, atol=1e-5)


def test_every_activation_has_a_golden():
    activations = set(detector_parts.SCORE_ACTIVATIONS)
    assert {_message(case.config).score_converter for case in CONVERTED} == activations
    assert activations == set(post_processing_pb2.PostProcessing.ScoreConverter.values())


OPTIONS = {
    "score_threshold": "score_thresh", "iou_threshold": "iou_thresh", "soft_nms_sigma": "soft_nms_sigma",
    "max_detections_per_class": "max_size_per_class", "max_total_detections": "max_total_size",
    "class_agnostic": "use_class_agnostic_nms", "change_coordinate_frame": "change_coordinate_frame",
}  # fmt: skip


def test_golden_options_and_refusals_and_hard_suppression_beats_sigma():
    for name in ("builder_defaults", "builder_typical"):
        found = detector_parts.build_post_processing(_message(SUPPRESSION[name].config)).nms
        for ours, theirs in OPTIONS.items():
            assert getattr(found, ours) == pytest.approx(SUPPRESSION[name].facts["keywords"][theirs]), ours
    for case in SUPPRESSION.values():
        if case.name.startswith("builder_error"):
            config_refused("batch_non_max_suppression", check_message, _message(case.config), "m")
    message = parsed(post_processing_pb2.BatchNonMaxSuppression, "use_hard_nms: true soft_nms_sigma: 0.5")
    assert detector_parts.build_nms_options(message).soft_nms_sigma == 0.0


def test_the_block_says_how_to_quantize():
    block = "quantization { delay: 3 weight_bits: 8 activation_bits: 7 symmetric: true }"
    config = parse_pipeline_config(f"graph_rewriter {{ {block} }}")
    wanted = QuantizationOptions(delay=3, weight_bits=8, activation_bits=7, symmetric=True)
    assert build_quantization_options(config) == find_quantization_options(config) == wanted
    for text in ("", "graph_rewriter { }"):
        config = parse_pipeline_config(text)
        assert find_quantization_options(config) is None
        message = "graph_rewriter: expected a graph_rewriter block, .*found none"
        config_refused(message, check_quantization, config)
        assert config == parse_pipeline_config(text), "reading a field would set it"


# The extractor's name decides which pyramid it has; one that has none takes no arm.
PYRAMIDS = set(NECKS) - {"extra_layers"}

# Oneof -> arms that a table builds.
TABLES = {
    "AnchorGenerator.anchor_generator_oneof": detector_parts.ANCHOR_GENERATORS,
    "BoxCoder.box_coder_oneof": detector_parts.BOX_CODERS,
    "BoxPredictor.box_predictor_oneof": {*heads.BOX_PREDICTORS, "mask_rcnn_box_predictor"},
    "CalibrationConfig.calibrator": detector_parts.CALIBRATIONS,
    "ClassificationLoss.classification_loss": detector_parts.CLASSIFICATION_LOSSES,
    "DetectionModel.model": FAMILIES, "Hyperparams.normalizer_oneof": heads.NORMALIZERS,
    "ImageResizer.image_resizer_oneof": input_pipeline.IMAGE_RESIZERS,
    "Initializer.initializer_oneof": heads.INITIALIZERS,
    "InputReader.input_reader": {"tf_record_input_reader"},
    "LearningRate.learning_rate": optimizer.LEARNING_RATES,
    "LocalizationLoss.localization_loss": detector_parts.LOCALIZATION_LOSSES,
    "Matcher.matcher_oneof": detector_parts.MATCHERS, "Optimizer.optimizer": optimizer.OPTIMIZERS,
    "ParameterizedMetric.parameterized_metric": {KEYPOINT_SET},
    "PreprocessingStep.preprocessing_step": augment.PREPROCESSING_STEPS,
    "RegionSimilarityCalculator.region_similarity": detector_parts.SIMILARITIES,
    "Regularizer.regularizer_oneof": heads.REGULARIZERS,
    "SsdFeatureExtractor.feature_pyramid_oneof": PYRAMIDS,
}  # fmt: skip
ONEOFS = {f"{name}.{oneof.name}": oneof for name, m in MESSAGES.items() for oneof in m.oneofs}


def test_every_oneof_of_the_schema_has_one_table():
    assert set(ONEOFS) == set(TABLES)


@cases(*TABLES)
def test_every_arm_is_built_or_refused_with_a_reason(*, name):
    arms = {field.name for field in ONEOFS[name].fields}
    rules = rules_of(ONEOFS[name].containing_type)
    refused = set(rules.refused) & arms
    assert set(TABLES[name]) | refused == arms
    assert not set(TABLES[name]) & refused
    message = GetMessageClass(ONEOFS[name].containing_type)
    for arm in refused:
        reason = rules.refused[arm]
        (problem,) = find_refused(message(**{arm: {}}))
        assert problem.path == arm and problem.message.endswith(reason) and len(reason) > 20
        assert re.search("; use |list |remove |write ", reason), reason


@cases(
    ((320, 320), (0.75, 1.0, 1.25), [(416, 416), (320, 320), (256, 256)]),
    ((300, 300), (0.75, 1.0, 1.25), [(384, 384), (300, 300), (224, 224)]),
    ((192, 256), (0.5, 1.0), [(192, 256), (96, 128)]),
    ((64, 64), (0.9, 1.0, 1.1), [(64, 64)]),
    ((64, 64), (0.25,), [(32, 32)]),
)
def test_sizes_are_multiples_of_32_and_each_is_there_once_the_largest_first(*, own, scales, sizes):
    assert scaled_sizes(own, scales) == sizes


def _config(name, block):
    return apply_overrides(parse_pipeline_config(MODELS[name]), {"train_config.multi_scale": block})


# The others are as slow to build as there are rows, and differ in what `test_precision` is about.
SMALL = "plain"
NAMES = [SMALL, *(pytest.param(name, marks=pytest.mark.zoo) for name in MODELS if name != SMALL)]


@pytest.mark.parametrize("name", NAMES)
def test_another_size_is_the_same_detector_built_for_it(name):
    config = _config(name, {"scale": [1.0, 2.0], "steps_per_scale": 1})
    detector = build_detector(config.model)
    side = detector.input_shape.size[0]
    scales = build_multi_scale_model(config, detector)
    assert scales.largest != detector.losses
    (other,) = {scales.losses(step) for step in range(20)} - {detector.losses}
    resizer = "automl_resizer" if "efficientdet {" in MODELS[name] else "fixed_shape_resizer"
    place = f"model.{config.model.WhichOneof('model')}.image_resizer.{resizer}"
    at_size = {f"{place}.height": 2 * side, f"{place}.width": 2 * side}
    alone = build_detector(apply_overrides(config, at_size).model)
    for ours, theirs in zip(detector.variables, alone.variables, strict=True):
        assert ours.name == theirs.name
        seed = [ours.shape.num_elements(), ours.shape.rank]
        ours.assign(theirs.assign(tf.random.stateless_uniform(ours.shape, seed, 0.05, 0.4)))
    batch = batch_for(detector)
    with tf.GradientTape() as tape:
        found = other(batch, False)
    wanted = alone.losses(resized(batch, (2 * side, 2 * side)), training=False)
    ours, theirs = ({key: float(value) for key, value in losses.items()} for losses in (found, wanted))
    assert ours == pytest.approx(theirs, rel=1e-4)
    gradients = tape.gradient(found[TOTAL_LOSS], detector.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
    before = [v.numpy() for v in detector.variables if "moving_mean" in v.name]
    other(batch, True)
    after = [v.numpy() for v in detector.variables if "moving_mean" in v.name]
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_detector_without_the_block_has_no_scales_and_one_of_several_sizes_is_refused():
    class Several:
        input_shape = type("Shape", (), {"size": None})

    assert build_multi_scale_model(parse_pipeline_config(MODELS[SMALL]), Several()) is None
    message = r"train_config\.multi_scale: .*takes several already; remove it"
    config_refused(message, build_multi_scale_model, _config(SMALL, {}), Several())


def test_a_family_that_cannot_give_a_network_to_another_detector_is_named():
    family = Family(name="tiny", build=lambda *_: TinyDetector(), describe=lambda *_: None, loss_names={})
    register_family(family)
    try:
        config = _config(SMALL, {"scale": [2.0]})
        config.model.Clear()
        config.model.experimental_model.name, config.model.experimental_model.num_classes = "tiny", 3
        config.model.experimental_model.image_resizer.fixed_shape_resizer.height = 32
        message = r"multi_scale\.scale: .*found 64 x 64, .*of one network, ssd .*, found tiny; train"
        config_refused(message, build_multi_scale_model, config, TinyDetector())
    finally:
        FAMILIES.pop("tiny", None)


@cases(
    ({"scale": [8.0]}, r"multi_scale\.scale"),
    ({"scale": [1.0] * 10}, r"multi_scale\.scale: .*at most 9 scales, found 10"),
    ({"steps_per_scale": 0}, r"multi_scale\.steps_per_scale"),
)
def test_wrong_values_are_named(*, block, field):
    config_refused(field, check_message, _config(SMALL, block).train_config, "train_config")


def test_every_family_takes_images_of_more_channels():
    small = {"ssd.image_resizer": "fixed_shape_resizer { height: 64 width: 64 }"}
    texts = [MODELS["plain"], MODELS["efficientdet, plain sums"]]
    configs = [*map(parse_pipeline_config, texts), *map(load_pipeline_config, (TWO_STAGE, CENTER, RETINA))]
    configs[-1] = apply_overrides(configs[-1], {f"model.{path}": value for path, value in small.items()})
    for config in configs:
        for reader in (config.train_input_reader, *config.eval_input_reader):
            reader.num_additional_channels = 2
        name = family_name(config.model)
        # CenterNet's keypoints need a label map unless it is only inspected; its weights are then zeros.
        seed = None if name == "center_net" else 0
        model = configured_model(check_detector(config)).build(seed=seed)
        assert model.channels == 5, name
        rows, columns = model.input_shape.smallest
        pixels = tf.random.stateless_uniform([1, rows, columns, 5], [1, 2], 0.0, 255.0)
        changed = tf.concat([pixels[..., :4], 255.0 - pixels[..., 4:]], -1)
        one, other = (model.preprocess(given) for given in (pixels, changed))
        assert one.shape == pixels.shape and not np.array_equal(one, other), name
        network = next(iter(model.networks.values()))
        found, others = (tf.nest.flatten(network(given, training=False)) for given in (one, other))
        assert seed is None or not np.array_equal(found[0], others[0]), name
