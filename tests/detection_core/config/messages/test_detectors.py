"""Contradictions of whole detectors, and of what is registered for them."""

import dataclasses

import pytest

from detection_core.allowed_values import POSITIVE, Option
from detection_core.config.automl.hparams import MODELS
from detection_core.config.check import check_message, check_pipeline_config, find_problems
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.messages import pipeline
from detection_core.config.messages.graph_rewriter import AWARE, FORMATS_OF_8_BITS, format_problems
from detection_core.config.messages.registered import PARTS, build_registered, register_part
from detection_core.config.messages.table import RULES
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.family import FAMILIES, find_family
from detection_core.errors import Problem
from detection_core.exporters.tflite_formats import FORMATS, Network
from detection_core.families.efficientdet.check import size_problems as efficientdet_size_problems
from detection_core.families.efficientdet.settings import Node, input_size, settings_of
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.protos.graph_rewriter_pb2 import Quantization
from detection_core.protos.losses_pb2 import ClassificationLoss
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.preprocessor_pb2 import PreprocessingStep
from detection_core.protos.registered_pb2 import RegisteredPart
from tests.support.cases import cases, config_refused, refused
from tests.support.configs import (
    CENTER,
    LAYERS,
    PYRAMID,
    TWO_STAGE,
    assert_any,
    assert_each_refused,
    assert_fine,
    assert_problems,
    changed,
    find_in,
    parsed,
)
from tests.support.efficientdet_goldens import message, read_json
from tests.support.zoo_configs import ZOO, zoo_config

TYPE = "model.ssd.feature_extractor.type"


def test_a_problem_is_found_where_it_is_and_classes_may_be_left_out():
    assert_each_refused(PYRAMID, {"model": "unset", "model.ssd.num_classes": 0, TYPE: ""})
    for name in ("ssd_mobilenet_v2_fpn", "ssd_mobilenet_v9_keras"):
        assert_each_refused(PYRAMID, {TYPE: name})
    assert_each_refused(TWO_STAGE, {"model.faster_rcnn.num_classes": 0})
    assert_each_refused(CENTER, {"model.center_net.num_classes": -1, "model.center_net.image_resizer": {}})
    assert_fine(PYRAMID, {"model": "{ experimental_model { name: 'x' } }"})
    for path, field in ((PYRAMID, "model.ssd.num_classes"), (TWO_STAGE, "model.faster_rcnn.num_classes")):
        assert_fine(path, {field: "unset"})
        config = load_pipeline_config(path)
        assert not list(pipeline.missing_classes_problems(config.model))
        (problem,) = pipeline.missing_classes_problems(apply_overrides(config, {field: "unset"}).model)
        assert problem.path == field


HPARAMS = read_json("hparams")
OVERRIDES = HPARAMS["model_overrides"]


def _problems(text):
    config = parse_pipeline_config(f"model {{ efficientdet {{ {text} }} }}")
    return {p.path.removeprefix("model.efficientdet."): p.message for p in find_problems(config)}


@cases(*OVERRIDES)
def test_settings_of_a_model_are_the_reference_s(*, name):
    theirs = {key: entry["value"] for key, entry in HPARAMS["defaults"].items()} | OVERRIDES[name]
    settings = settings_of(EfficientDet(name=name, num_classes=90))
    theirs["image_size"] = (theirs["image_size"],) * 2
    theirs["fpn_weight_method"] = theirs["fpn_weight_method"] or "fastattn"
    for field in dataclasses.fields(settings):
        expected, found = theirs.get(field.name), getattr(settings, field.name)
        if field.name not in theirs:
            continue
        if expected is None:
            assert not found, field.name
        elif isinstance(found, tuple) and isinstance(expected, float):
            assert set(found) == {expected}
        else:
            assert found == (tuple(expected) if isinstance(expected, list) else expected), field.name


def test_unset_fields_are_the_named_model_s_and_set_ones_take_their_place():
    settings = settings_of(message("efficientdet-lite0"))
    assert settings.anchor_scale == (3.0,) * 5 and settings.mean_rgb == (127.0,) * 3
    assert input_size(EfficientDet(name="efficientdet-lite2")) == (448, 448)
    assert input_size(EfficientDet(name="efficientdet-d9")) is None
    for name in MODELS:
        assert _problems(f'name: "{name}" num_classes: 2') == {}
    texts = ("fpn_name", "fpn_weight_method", "act_type", "backbone_name", "iou_loss_type")
    empty = message(**dict.fromkeys(texts, ""))
    assert settings_of(empty) == settings_of(message())
    empty_fields = " ".join(f'{name}: ""' for name in texts)
    assert _problems(f'name: "efficientdet-d0" num_classes: 2 {empty_fields}') == {}
    given = message(size=(128, 256), max_level=6, fpn_name="qufpn", mean_rgb=[100.0])
    given.fpn_nodes.add(feat_level=3, inputs_offsets=[0, 1])
    given.anchor_shapes.add(width_factor=2.0, height_factor=0.5)
    settings = settings_of(given)
    assert settings.nodes == (Node(3, (0, 1)),)
    assert (settings.image_size, settings.mean_rgb) == ((128, 256), (100.0,) * 3)
    assert (settings.anchors_per_location, list(settings.levels)) == (3, [3, 4, 5, 6])
    for case in HPARAMS["feat_sizes"]:
        settings, sizes = settings_of(message(max_level=case["max_level"])), case["sizes_hw"]
        assert [list(shape) for shape in settings.map_shapes(sizes[0])] == sizes[3:], case


WRONG = {
    'act_type: "gelu"': ("act_type", "hswish"),
    'fpn_weight_method: "mean"': ("fpn_weight_method", "fastattn"),
    "mean_rgb: 1 mean_rgb: 2": ("mean_rgb", "give 1 or 3"),
    "stddev_rgb: 0": ("stddev_rgb[0]", "above 0"),
    "min_level: 6": ("min_level", "found 6 and 7"),
    "max_level: 3": ("min_level", "found 3 and 3"),
    "anchor_scale: 1 anchor_scale: 2": ("anchor_scale", "5 levels"),
    'var_freeze_expr: "("': ("var_freeze_expr", "regular expression"),
    'nms_configs { method: "diou" }': ("nms_configs.method", "gaussian"),
    'nms_configs { mode: "all" }': ("nms_configs.mode", "per_class"),
    "fpn_nodes { feat_level: 9 inputs_offsets: 0 }": ("fpn_nodes[0].feat_level", "found 9"),
    "image_resizer { fixed_shape_resizer { height: 64 width: 96 } }": ("image_resizer", "1 x 2 and 1 x 1"),
    'heads: "segmentation"': ("heads", "add it"),
    "image_resizer { keep_aspect_ratio_resizer {} }": ("image_resizer", "one output size"),
}
LITE = 'name: "efficientdet-lite0" heads: "object_detection" heads: "segmentation"'


@cases(
    *((f'name: "efficientdet-d0" {text}', *found) for text, found in WRONG.items()),
    ("num_classes: 2", "name", "efficientdet-d0"),
    ('name: "efficientdet-d8"', "name", "found 'efficientdet-d8'"),
    (LITE, "image_resizer", "multiples of 128"),
)
def test_what_is_wrong_is_found(*, text, path, words):
    found = _problems(text)
    assert words in found[path], found


SSD = "model.ssd"
HEAD = f"{SSD}.box_predictor.weight_shared_convolutional_box_predictor"
ANCHORS = f"{SSD}.anchor_generator.multiscale_anchor_generator"
NMS = f"{SSD}.post_processing.batch_non_max_suppression"
SIDES = tuple(f"{SSD}.image_resizer.fixed_shape_resizer.{side}" for side in ("height", "width"))
BATCH = "batch_size: .*at most 4,294,967,296 pixels of a batch of 320 x 320 images, found 6,144,000,000"
SCORES = "num_classes: expected at most 2,147,483,648 scores and codes of [0-9,]+ anchors, found [0-9,]{13}"
LAID = "anchor_generator: expected at most 8,388,608 anchors on an image, found [0-9,]{9}"


# What is changed, and the message: what was found and what the limit is.
@cases(
    ({"num_classes": 1_000_000}, "num_classes: .*up to 100,000, found 1,000,000"),
    (dict.fromkeys(SIDES, 20_000), "height: .*to 16,384, found 20,000"),
    (dict.fromkeys(SIDES, 16_000), "at most 67,108,864 pixels of an image, found 256,000,000"),
    ({"batch_size": 1_000_000}, "batch_size: .*to 65,536, found 1,000,000"),
    ({"batch_size": 60_000, **dict.fromkeys(SIDES, 320)}, BATCH),
    ({f"{HEAD}.depth": 1_000_000}, "depth: .*to 16,384, found 1,000,000"),
    ({f"{HEAD}.num_layers_before_predictor": 1_000_000}, "num_layers_.*: .*to 100, found 1,000,000"),
    ({f"{HEAD}.kernel_size": 100_001}, "kernel_size: .*to 64, found 100,001"),
    ({f"{SSD}.feature_extractor.depth_multiplier": 10_000}, "depth_multiplier: .*up to 16, found 10000"),
    ({"train_input_reader.shuffle_buffer_size": 4_000_000_000}, "shuffle_.*to 10,000,000, found 4,000,"),
    ({f"{NMS}.max_total_detections": 2_000_000_000}, "max_total_.*to 100,000, found 2,000,000,000"),
    ({"train_config.max_number_of_boxes": 2_000_000_000}, "max_number_.*to 100,000, found 2,000,000,000"),
    ({"num_classes": 90_000, **dict.fromkeys(SIDES, 2048)}, SCORES),
    ({f"{ANCHORS}.scales_per_octave": 8, **dict.fromkeys(SIDES, 8192)}, LAID),
)
def test_what_is_too_large_is_refused_with_number_and_limit(*, changes, message):
    config = changed(PYRAMID, changes)
    assert_any(find_problems(config), message)
    config_refused("", check_pipeline_config, config)


def test_the_zoo_is_far_below_the_limits_and_a_list_without_end_is_told_in_a_few_lines():
    for name in ZOO:
        config = zoo_config(name)
        changes = {"num_classes": 1_203, "train_config.batch_size": 8 * config.train_config.batch_size}
        for each in (config, apply_overrides(config, changes)):
            check_pipeline_config(each, where=name)
    assert_fine(PYRAMID, {"num_classes": 60_000})
    config = load_pipeline_config(PYRAMID)
    config.train_config.optimizer.Clear()
    config.train_input_reader.sample_from_datasets_weights[:] = [-1.0] * 5_000
    caught = config_refused("", check_pipeline_config, config)
    assert len(str(caught)) < 10_000 and "more" in str(caught)


@cases(
    ({}, None),
    ({"num_scales": 100, "min_level": 1}, "m.num_scales"),
    ({"num_classes": 2_000_000}, "m.num_classes"),
    ({"num_scales": 100, "num_classes": 100_000, "min_level": 5}, "m.num_classes"),
    ({"act_type": "none"}, None),
)
def test_predictions_of_an_efficientdet_fit_into_memory(*, fields, path):
    given = EfficientDet(**{"name": "efficientdet-d0", "num_classes": 90, **fields})
    found = [problem.path for problem in efficientdet_size_problems(given, "m", (512, 512))]
    assert found == ([path] if path else [])


FIXED = "image_resizer { fixed_shape_resizer {} }"
SUPPRESSED = f"ssd {{ {FIXED} post_processing {{ batch_non_max_suppression {{ iou_threshold: 0 }} }} }}"
CLIP = "box_encodings_clip_range { min: -5 max: 5 }"


def config_of(model):
    return parse_pipeline_config(f"model {{ {model} }}")


def test_a_clip_range_is_found_in_either_head_and_keypoints_are_refused():
    assert not list(pipeline.tflite_problems(config_of("efficientdet {}")))
    for head in ("convolutional_box_predictor", "weight_shared_convolutional_box_predictor"):
        text = f"ssd {{ {FIXED} box_predictor {{ {head} {{ %s }} }} }}"
        plain, clipped = (config_of(text % clip) for clip in ("", CLIP))
        assert not list(pipeline.tflite_problems(plain))
        path = f"model.ssd.box_predictor.{head}.box_encodings_clip_range"
        for problems in (pipeline.tflite_problems, pipeline.clip_range_problems):
            assert [problem.path for problem in problems(clipped)] == [path]
    coder = "box_coder { keypoint_box_coder { num_keypoints: 2 } }"
    (problem,) = pipeline.tflite_problems(config_of(f"ssd {{ {FIXED} {coder} }}"))
    assert problem.path == "model.ssd.box_coder"
    assert "give boxes without keypoints: serve the SavedModel" in problem.message


@cases(
    ("faster_rcnn {}", "model"),
    ("ssd { image_resizer { identity_resizer {} } }", "model.ssd.image_resizer"),
    ("efficientdet { image_resizer { identity_resizer {} } }", "model.efficientdet.image_resizer"),
    (f"ssd {{ {FIXED} box_coder {{ square_box_coder {{}} }} }}", "model.ssd.box_coder"),
    (SUPPRESSED, f"{NMS}.iou_threshold"),
)
def test_what_a_file_cannot_hold_is_found(*, model, path):
    assert [p.path for p in pipeline.tflite_problems(config_of(model))] == [path]


KIND = "classification_loss"
LOSS = f"{SSD}.loss.{KIND}"
OPTIONS = {"epsilon": Option(1.0, POSITIVE), "steps": Option(3), "hard": Option(False), "mode": Option("sum")}


def _check(message, path):
    if message.options["mode"] == "both":
        yield Problem(path=f"{path}.options[mode]", message="expected sum or mean, found 'both'; correct it")


@pytest.fixture
def poly():
    register_part(KIND, "poly", lambda **values: values, options=OPTIONS, check=_check)
    yield
    PARTS.pop((KIND, "poly"), None)


def _option(name, value):
    return f'name: "poly" options {{ key: "{name}" value: "{value}" }}'


@pytest.mark.usefixtures("poly")
def test_options_have_the_type_of_their_defaults_and_a_name_is_given_once():
    text = f'{_option("epsilon", "2.5")} options {{ key: "hard" value: "true" }}'
    message = parsed(RegisteredPart, text)
    assert build_registered(KIND, message) == {"epsilon": 2.5, "steps": 3, "hard": True, "mode": "sum"}
    refused(ValueError, "'poly', which is registered", register_part, KIND, "poly", dict)
    register_part("augmentation", "poly", dict)
    assert PARTS.pop(("augmentation", "poly")).build is dict


@cases(
    ('name: "polly"', "registered.name", "did you mean poly?"),
    ("", "registered.name", "expected a registered classification_loss, found ''; use one of poly"),
    (_option("epsilon", "0"), "registered.options[epsilon]", "expected a number above 0, found 0"),
    (_option("epsilon", "x"), "registered.options[epsilon]", "expected a number, found 'x'"),
    (_option("steps", "1.5"), "registered.options[steps]", "expected a whole number, found '1.5'"),
    (_option("hard", "yes"), "registered.options[hard]", "expected true or false, found 'yes'"),
    (_option("gamma", "1"), "registered.options[gamma]", "which has epsilon, steps, hard, mode"),
    (_option("mode", "both"), "registered.options[mode]", "expected sum or mean"),
    (_option("epsilon", "nan"), "registered.options[epsilon]", "expected a number above 0, found nan"),
)
def test_what_does_not_fit_is_named(poly, *, text, path, words):
    (problem,) = find_in(parsed(ClassificationLoss, f"registered {{ {text} }}"), "loss")
    assert problem.path == f"loss.{path}" and words in problem.message


@pytest.mark.usefixtures("poly")
def test_the_check_of_a_config_knows_the_part_and_its_kind():
    part, path = {"registered": {"name": "poly"}}, "train_config.data_augmentation_options[0]"
    assert_problems(PYRAMID, {path: part}, {f"{path}.registered.name"})
    assert_fine(PYRAMID, {LOSS: part})
    PARTS.pop((KIND, "poly"), None)
    assert_problems(PYRAMID, {LOSS: part}, {f"{LOSS}.registered.name"})


WRONG_MOSAIC = {"probability": 1.5, "height": 1, "min_fraction": 0.5, "per_channel_pad_value": 3}


@cases(
    *((f"mosaic {{ {name}: {value} }}", f"mosaic.{name}") for name, value in WRONG_MOSAIC.items()),
    ("mosaic { per_channel_pad_value: [1, 2, 300] }", "mosaic.per_channel_pad_value"),
    ("mixup { alpha: 0 }", "mixup.alpha"),
    ("copy_paste { object_probability: -1 }", "copy_paste.object_probability"),
    ("copy_paste { scale_min: 2 }", "copy_paste.scale_max"),
    ("large_scale_jitter { scale_min: 1 scale_max: 0.5 }", "large_scale_jitter.scale_max"),
    ("large_scale_jitter { height: 0 }", "large_scale_jitter.height"),
)
def test_wrong_values_are_named_and_defaults_accepted(*, text, field):
    caught = config_refused("", check_message, parsed(PreprocessingStep, text), "step")
    assert f"step.{field}" in str(caught)
    check_message(parsed(PreprocessingStep, f"{field.partition('.')[0]} {{}}"), "step")


QUANTIZATION = "graph_rewriter.quantization"
WEIGHTS, ACTIVATIONS = f"{QUANTIZATION}.weight_bits", f"{QUANTIZATION}.activation_bits"


def test_bits_and_names_are_those_that_files_have():
    assert_each_refused(PYRAMID, {WEIGHTS: 5, ACTIVATIONS: 4, f"{QUANTIZATION}.delay": -1})
    assert_fine(PYRAMID, {WEIGHTS: 4, ACTIVATIONS: 16})
    of_aware, integer = (Network.STRIPPED, Network.AWARE_MIXED), (Network.AWARE, Network.AWARE_MIXED)
    assert all((form.network in of_aware) == name.endswith(AWARE) for name, form in FORMATS.items())
    assert {n for n, f in FORMATS.items() if f.network in integer} == set(FORMATS_OF_8_BITS)


@cases(
    (None, ("float32", "int8", "int4_weights"), []),
    (None, ("float32", "int4_weights_aware"), ["formats"]),
    (Quantization(), tuple(FORMATS), []),
    (Quantization(weight_bits=4), ("int4_weights_aware", "int8_post_training", "int8_mixed"), []),
    (Quantization(weight_bits=4), ("float32", "int8"), [WEIGHTS]),
    (Quantization(weight_bits=4, activation_bits=16), ("int8_mixed_aware",), [WEIGHTS, ACTIVATIONS]),
)
def test_files_that_cannot_be_made_are_found(*, message, formats, paths):
    assert [problem.path for problem in format_problems(message, formats)] == paths


CODER = "model.ssd.box_coder.keypoint_box_coder.num_keypoints"


def test_every_family_is_built_or_refused_and_asked_for_in_one_way():
    arms = {field.name for field in DetectionModel.DESCRIPTOR.oneofs_by_name["model"].fields}
    assert set(FAMILIES) | set(RULES["DetectionModel"].refused) == arms
    assert not set(FAMILIES) & set(RULES["DetectionModel"].refused)
    for arm in FAMILIES:
        model = DetectionModel()
        message = getattr(model, arm)
        message.SetInParent()
        assert message.DESCRIPTOR.name in find_family(model).rules
        assert find_family(model).keypoints(message) is None
    changes = {"eval_config.use_moving_averages": True, "train_config.optimizer.use_moving_average": False}
    assert_problems(PYRAMID, changes, {"eval_config.use_moving_averages"})
    assert_fine(PYRAMID, {**changes, "train_config.optimizer.use_moving_average": True})
    changes = {CODER: 2, "model.ssd.box_predictor.convolutional_box_predictor.box_code_size": 8}
    assert_problems(LAYERS, changes, {"train_input_reader.num_keypoints"})
    assert_fine(LAYERS, {**changes, "train_input_reader.num_keypoints": 2})
    assert not list(pipeline.size_problems(TrainEvalPipelineConfig()))
