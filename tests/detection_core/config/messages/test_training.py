"""Contradictions of training, its data and its evaluation."""

import re

from detection_core.config.check import check_message, find_problems
from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.evaluation import MEASURED, NOT_MEASURED
from detection_core.config.messages.training import (
    STEPS_OF,
    endless_training_problems,
    fields_in_epochs,
    in_steps,
    validation_problems,
)
from detection_core.config.metric_names import COCO_SET, MASK_SETS
from detection_core.config.paths.overrides import apply_overrides
from detection_core.evaluation.metric_sets import SHAPE_KINDS, VOC_SETS
from detection_core.families.ssd.extractors import NAMED_EXTRACTORS
from detection_core.families.ssd.scoped_names import FAMILIES
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import cases, config_refused
from tests.support.configs import (
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
from tests.support.random_messages import MESSAGES
from tests.support.tiny_training import config_text

TRAIN = "train_config"
PARTS, SCALE = f"{TRAIN}.gradient_accumulation_steps", f"{TRAIN}.initial_loss_scale"
PRECISION, STEP = f"{TRAIN}.precision", f"{TRAIN}.data_augmentation_options[0]"
SCORES, MERGED = f"{TRAIN}.use_multiclass_scores", f"{TRAIN}.merge_multiple_label_boxes"


def test_a_problem_is_found_where_it_is_and_what_fits_passes():
    assert_each_refused(PYRAMID, {f"{TRAIN}.batch_size": 0, STEP: {}, SCALE: 0, SCORES: True})
    assert_problems(PYRAMID, {STEP: {"rgb_to_gray": {}}}, {f"{STEP}.rgb_to_gray"})
    assert_problems(PYRAMID, {"batch_size": 8, PARTS: 3}, {PARTS})
    assert_problems(PYRAMID, {PRECISION: "BFLOAT16", SCALE: 8}, {SCALE})
    loaded = {"train_input_reader.load_multiclass_scores": True}
    assert_problems(PYRAMID, {SCORES: True, MERGED: True, **loaded}, {MERGED})
    power = f"{TRAIN}.class_weight_power"
    assert_problems(PYRAMID, {power: 0.5, MERGED: True}, {power})
    assert_each_refused(PYRAMID, {power: 1.5})
    for parts in (4, 0):  # a batch is computed in equal parts
        assert_fine(PYRAMID, {"batch_size": 8, PARTS: parts})
    for precision in ("AUTO", "FLOAT16"):
        assert_fine(PYRAMID, {PRECISION: precision, SCALE: 8})
    assert_fine(LAYERS, {TRAIN: "unset"})
    reader = "train_input_reader"
    weights, reduced = f"{reader}.sample_from_datasets_weights", f"{reader}.decode_at_reduced_size"
    assert_problems(PYRAMID, {weights: [0.5, -0.5]}, {weights, f"{weights}[1]"})
    assert_each_refused(PYRAMID, {"eval_input_reader[0].sample_1_of_n_examples": 0})
    assert_problems(PYRAMID, {reduced: True, f"{reader}.load_instance_masks": True}, {reduced})


KEYPOINTS = "train_input_reader { num_keypoints: 3 load_multiclass_scores: true }"


def _found(step, reader=""):
    text = f"{reader} train_config {{ data_augmentation_options {{ random_adjust_hue {{}} }}"
    text += f" data_augmentation_options {{ {step} }} }}"
    found = find_in(parse_pipeline_config(text), "")
    return [problem for problem in found if "data_augmentation_options" in problem.path]


WRONG = {
    "": "expected one augmentation, found none",
    "convert_class_logits_to_softmax {}": "load_multiclass_scores: true",
    "convert_class_logits_to_softmax { temperature: 0 }": "temperature: .*another number than 0",
    "rgb_to_gray {}": "use random_rgb_to_gray { probability: 1 }",
    "autoaugment_image { policy_name: 'v9' }": "policy_name: expected one of v0, v1, v2, v3",
    "random_crop_image { min_area: 0 }": "min_area: .*above 0, up to 1, found 0",
    "ssd_random_crop { operations { min_area: 0 } }": r"operations\[0\].min_area: .*above 0",
    "random_pad_image { pad_color: [1, 2] }": "pad_color: expected 3 values or none, found 2",
    "random_pad_image { min_image_height: 9 }": "min_image_height.*: .*found one alone",
    "random_crop_pad_image { min_padded_size_ratio: 1 }": "min_padded_size_ratio: .*2 values",
    "automl_scale_jitter { scale_max: 0.05 }": "scale_max: .*at least scale_min, which is 0.1",
    "automl_scale_jitter { target_height: 9 }": "target_height: .*found one alone; set both",
    "automl_scale_jitter { per_channel_pad_value: 9 }": "_value: expected 3 values or none, found 1",
    "automl_grid_mask { ratio: 0 }": "ratio: .*above 0, up to 1, found 0",
    "random_jpeg_quality { max_jpeg_quality: 300 }": "max_jpeg_quality: .*from 0 to 100, found 300",
    "random_distort_color { color_ordering: 2 }": "color_ordering: expected 0 or 1, found 2",
    "subtract_channel_mean { means: 1 }": "means: expected 3 means, found 1",
    "resize_image { new_height: 0 }": "new_height: .*from 1 to 16,384, found 0",
    "random_resize_method { target_height: 5 }": "target_width: .*from 1 to 16,384, found 0",
    "random_downscale_to_target_pixels { min_target_pixels: 0 }": "min_target_pixels: .*above 0",
    "random_downscale_to_target_pixels { max_target_pixels: 9 }": "min_.*at most max_.*which is 9, found",
    "normalize_image { original_minval: 1 original_maxval: 1 }": "original_maxval: .*another number",
}
FLIP, ROTATION = "keypoint_flip_permutation", "keypoint_rot_permutation"
WRONG_BESIDE_KEYPOINTS = {
    "random_horizontal_flip {}": f"{FLIP}: .*each of 0 to 2 once",
    f"random_vertical_flip {{ {FLIP}: [0, 2, 2] }}": rf"{FLIP}: .*found \[0, 2, 2\]",
    f"random_rotation90 {{ {ROTATION}: [1, 0] }}": rf"{ROTATION}: .*found \[1, 0\]",
    "autoaugment_image {}": "policy_name: expected v2 or v3 or test or randaug beside keypoints",
}


@cases(
    *((step, "", message) for step, message in WRONG.items()),
    *((step, KEYPOINTS, message) for step, message in WRONG_BESIDE_KEYPOINTS.items()),
)
def test_a_step_that_cannot_be_taken_is_named(*, step, reader, message):
    assert_any(_found(step, reader), rf"^train_config\.data_augmentation_options\[1\].*{message}")


@cases(
    (f"random_horizontal_flip {{ {FLIP}: [1, 0, 2] }}", KEYPOINTS),
    ("random_rotation90 {}", KEYPOINTS),
    ("ssd_random_crop {}", KEYPOINTS),
    ('autoaugment_image { policy_name: "v2" }', KEYPOINTS),
    ("convert_class_logits_to_softmax {}", KEYPOINTS),
    ("random_horizontal_flip {}", ""),
)
def test_steps_that_go_with_keypoints_and_scores_are_accepted(*, step, reader):
    assert _found(step, reader) == []


OPTIMIZER = "train_config.optimizer"
COSINE = f"{OPTIMIZER}.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
SCHEDULE = f"{OPTIMIZER}.rms_prop_optimizer.learning_rate.manual_step_learning_rate.schedule"
EXPONENTIAL = f"{OPTIMIZER}.adam_optimizer.learning_rate.exponential_decay_learning_rate"


def test_a_problem_is_found_where_it_is_and_what_is_unusual_passes():
    assert_each_refused(PYRAMID, {OPTIMIZER: {}, f"{COSINE}.warmup_learning_rate": 0.5})
    adam = f"{OPTIMIZER}.adam_optimizer.learning_rate"
    assert_problems(PYRAMID, {OPTIMIZER: "{ adam_optimizer {} }"}, {adam})
    assert_problems(PYRAMID, {f"{COSINE}.total_steps": 99}, {f"{COSINE}.warmup_steps"})
    rates = {f"{COSINE}.learning_rate_base", f"{COSINE}.warmup_learning_rate"}
    assert_problems(PYRAMID, {f"{COSINE}.learning_rate_base": -1}, rates)
    steps = {f"{SCHEDULE}[0].step": 0, f"{SCHEDULE}[1].step": 1000, f"{SCHEDULE}[1].learning_rate": -0.5}
    assert_each_refused(LAYERS, {SCHEDULE: "[]", **steps})
    wrong = {f"{EXPONENTIAL}.min_learning_rate": 1, f"{EXPONENTIAL}.decay_steps": 0}
    assert_each_refused(TWO_STAGE, wrong)
    assert_fine(PYRAMID, {f"{COSINE}.hold_base_rate_steps": 1400})  # a plateau may last to the end
    assert_fine(PYRAMID, {f"{COSINE}.warmup_steps": 0, f"{COSINE}.warmup_learning_rate": 5})


COSINE_EPOCHS = "cosine_decay_learning_rate { total_epochs: 10 warmup_epochs: 0.5 hold_base_rate_epochs: 1 }"
MANUAL = """manual_step_learning_rate {
  schedule { epoch: 2.5 learning_rate: 0.1 } schedule { epoch: 7 learning_rate: 0.01 } }"""
EXPONENTIAL_EPOCHS = "exponential_decay_learning_rate { decay_epochs: 2 burnin_epochs: 1 }"


def _config(train, rate=COSINE_EPOCHS):
    text = f"train_config {{ {train} optimizer {{ adam_optimizer {{ learning_rate {{ {rate} }} }} }} }}"
    return parsed(TrainEvalPipelineConfig, text)


def _rate(config):
    rate = config.train_config.optimizer.adam_optimizer.learning_rate
    return getattr(rate, rate.WhichOneof("learning_rate"))


def test_every_field_in_epochs_has_one_in_steps():
    for name, fields in STEPS_OF.items():
        own = MESSAGES[name].fields_by_name
        for epochs, steps in fields.items():
            assert (own[epochs].number >= 1000 and own[steps].number < 1000) or steps == "close_mosaic_steps"
            assert own[epochs].type == own[epochs].TYPE_FLOAT and own[steps].type == own[steps].TYPE_UINT32
        assert {n for n in own if "epoch" in n} == set(fields)


def test_lengths_in_epochs_are_accepted_and_become_whole_updates():
    for rate in (COSINE_EPOCHS, MANUAL, EXPONENTIAL_EPOCHS):
        config = _config("num_epochs: 0.5", rate)
        check_message(config.train_config, "train_config")
        assert not list(endless_training_problems(config.train_config))
    config = in_steps(_config("num_epochs: 10 close_mosaic_epochs: 1.5"), 18.75)
    assert config.train_config.num_steps == 188 and config.train_config.close_mosaic_steps == 28
    rate = _rate(config)
    assert (rate.total_steps, rate.warmup_steps, rate.hold_base_rate_steps) == (188, 9, 19)
    assert not fields_in_epochs(config.train_config)
    assert [e.step for e in _rate(in_steps(_config("", MANUAL), 100.0)).schedule] == [250, 700]
    rate = _rate(in_steps(_config("", EXPONENTIAL_EPOCHS), 100.0))
    assert (rate.decay_steps, rate.burnin_steps) == (200, 100)
    # A length is at least one update, and none stays none.
    short = "cosine_decay_learning_rate { warmup_epochs: 0 total_epochs: 0.01 }"
    rate = _rate(in_steps(_config("", short), 1))
    assert (rate.warmup_steps, rate.total_steps) == (0, 1)
    config = _config("num_steps: 7", "cosine_decay_learning_rate { total_steps: 7 }")
    assert in_steps(config, 3.0) == config
    config_refused(r"num_epochs.*train for fewer epochs", in_steps, _config("num_epochs: 1000000"), 1e6)


@cases(
    ("num_steps: 5 num_epochs: 2", COSINE_EPOCHS, "num_epochs"),
    ("num_epochs: -1", COSINE_EPOCHS, "num_epochs"),
    ("close_mosaic_steps: 5 close_mosaic_epochs: 2", COSINE_EPOCHS, "close_mosaic_epochs"),
    ("", "cosine_decay_learning_rate { total_steps: 9 total_epochs: 2 }", "total_epochs"),
    ("", "cosine_decay_learning_rate { total_epochs: 2 warmup_epochs: 3 }", "warmup_epochs"),
    ("", "exponential_decay_learning_rate { decay_steps: 9 decay_epochs: 2 }", "decay_epochs"),
    ("", "manual_step_learning_rate { schedule { step: 4 epoch: 2 } }", "schedule[0].epoch"),
    ("", "manual_step_learning_rate { schedule { step: 4 } schedule { epoch: 8 } }", "schedule"),
    ("", "manual_step_learning_rate { schedule { epoch: 4 } schedule { epoch: 3 } }", "schedule[1].epoch"),
)
def test_contradictions_are_named(*, train, rate, field):
    caught = config_refused("", check_message, _config(train, rate).train_config, "train_config")
    assert f"{field}:" in str(caught)


START, HEADS = f"{TRAIN}.fine_tune_checkpoint", f"{TRAIN}.load_all_detection_checkpoint_vars"
TYPE, VERSION = f"{START}_type", f"{START}_version"
ZOO_MODEL = "zoo:ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"
CHECKPOINT = {START: "weights/model.ckpt"}
EXTRACTOR = "model.ssd.feature_extractor.type"
# What an EfficientNet needs in the place of the pyramid's own fields.
LEVELS = {"min_level": 3, "max_level": 6, "num_iterations": 3, "num_filters": 64}
OTHER = dict.fromkeys(("fpn", "depth_multiplier", "use_depthwise"), "unset") | {"bifpn": LEVELS}
EFFICIENTNET = {f"model.ssd.feature_extractor.{name}": value for name, value in OTHER.items()}
B0, B3 = "ssd_efficientnet-b0_bifpn_keras", "ssd_efficientnet-b3_bifpn_keras"


def _named(extractor="ssd_mobilenet_v2_fpn_keras", **fields):
    return {**CHECKPOINT, EXTRACTOR: extractor, VERSION: "V1", **fields}


@cases(
    ({START: "C:\temp", VERSION: "V2"}, {START: r"found 'C:\\temp', with control characters; .* write / or"}),
    ({TYPE: "detections"}, {TYPE: "did you mean detection"}),
    ({TYPE: "fine_tune"}, {TYPE: "no detector of the field supports"}),
    ({**CHECKPOINT, VERSION: "UNKNOWN"}, {VERSION: "expected V1, .* or V2"}),
    ({**CHECKPOINT, VERSION: "V2", HEADS: True}, {HEADS: 'fine_tune_checkpoint_type: "full"'}),
    (_named(B0, **EFFICIENTNET, **{TYPE: "full"}), {VERSION: f"had no {B0}.* set fine_.*_version: V2"}),
    # The default of the field is V1.
    (_named(B3, **{**EFFICIENTNET, VERSION: "unset"}), {VERSION: "expected V2"}),
    (_named(**{TYPE: "full"}), {TYPE: "load_all_detection_checkpoint_vars: true"}),
    (_named(**{TYPE: "classification", HEADS: True}), {HEADS: 'fine_tune_checkpoint_type: "detection"'}),
    (_named(**{TYPE: "unset", HEADS: True}), {HEADS: "classifier has no heads"}),
    ({START: "zoo:ssd_mobilenet_v2_fpnlite"}, {START: "did you mean ssd_mobilenet_v2_fpnlite"}),
    ({START: "zoo:efficientdet_d0_coco17_tpu-32"}, {START: "mobilenet_v2, .* of efficientnet_b0"}),
    ({START: ZOO_MODEL, VERSION: "V1"}, {VERSION: "expected V2 or nothing"}),
    ({START: ZOO_MODEL, TYPE: "classification"}, {TYPE: "expected detection or full with zoo:"}),
    ({START: ZOO_MODEL, HEADS: True}, {HEADS: "expected false with zoo:"}),
    ({START: "imagenet", TYPE: "full"}, {TYPE: "expected classification with imagenet"}),
    ({START: "imagenet:mobilenet_v2"}, {START: "expected imagenet alone"}),
)
def test_a_problem_is_found_where_it_is_with_what_to_do(*, changes, expected):
    assert_problems(PYRAMID, changes, set(expected))
    for problem in find_problems(changed(PYRAMID, changes)):
        assert re.search(expected[problem.path], problem.message)


@cases(
    _named(**{TYPE: "detection", HEADS: True}),
    _named("ssd_mobilenet_v1_fpn_keras", **{TYPE: "classification"}),
    _named(**{TYPE: "unset", f"{TRAIN}.from_detection_checkpoint": True, HEADS: True}),
    {**CHECKPOINT, VERSION: "V2", TYPE: "full"},
    # Without a checkpoint nothing is said about its version.
    {START: "unset", VERSION: "unset", HEADS: True},
)
def test_what_fits_passes(*, changes):
    assert_fine(PYRAMID, changes)


@cases(
    (PYRAMID, {"model": "{ experimental_model { name: 'x' } }"}),
    *((PYRAMID, {EXTRACTOR: n}) for n in ("ssd_spaghettinet", "ssd_mobilenet_v2_fpn")),
)
def test_a_model_that_is_not_built_is_a_problem_of_its_own(*, path, changes):
    config = changed(path, {**CHECKPOINT, VERSION: "V1", **changes})
    assert not {VERSION, TYPE, HEADS} & {problem.path for problem in find_problems(config)}
    assert set(NAMED_EXTRACTORS) == set(FAMILIES)


def _problems(block):
    text = config_text().replace("train_config {", f"train_config {{ {block}")
    return find_problems(parse_pipeline_config(text))


WRONG_MONITORING = {
    "mlflow { experiment: ' ' }": r"monitoring\.mlflow\.experiment: expected a name",
    "mlflow { tracking_uri: 'https://me:secret@host/x' }": r"tracking_uri: .*without a password",
    "wandb { project: 'a/b' }": r"monitoring\.wandb\.project: expected a name without any of .*'a/b'",
    "profile { steps: 0 }": r"monitoring\.profile\.steps: .*a number from 1 to 10,000",
    "wandb { project: '' }": r"monitoring\.wandb\.project",
}
WRONG_VALIDATION = {
    "metric { weight: 2 }": r"metric\[0\]\.name.*expected the name of a metric",
    "metric { name: 'a' } metric { name: 'a' }": r"metric\[1\]\.name.*found a again",
    "metric { name: 'a' weight: 0 }": r"metric\[0\]\.weight.*score alike",
    "keep_best: 0": r"keep_best.*from 1 to 100",
    "every_minutes: -1": r"every_minutes",
    "min_gain: -0.1": r"min_gain.*0 or more",
}


@cases(
    *((f"monitoring {{ {text} }}", found) for text, found in WRONG_MONITORING.items()),
    *((f"validation {{ {text} }}", found) for text, found in WRONG_VALIDATION.items()),
)
def test_what_no_server_would_take_or_what_says_nothing_is_refused(*, block, found):
    [problem] = _problems(block)
    text = f"{problem.path}: {problem.message}"
    assert re.search(found, text) and "secret" not in text


def test_servers_are_taken_and_images_to_validate_on_asked_for_when_training_begins():
    for uri in ("", "http://mlflow:5000", "sqlite:///mlflow.db", "databricks", "file:///x@y/z"):
        assert not _problems(f"monitoring {{ mlflow {{ tracking_uri: '{uri}' }} wandb {{}} }}")
    config = parse_pipeline_config(config_text())
    assert not list(validation_problems(config))
    [problem] = validation_problems(apply_overrides(config, {"train_config.validation.patience": 3}))
    assert problem.path == "eval_input_reader"


def test_shapes_are_measured_where_they_are_found_and_read():
    ssd = "model.ssd.box_{}.{}.{}".format
    coder = {ssd("coder", "keypoint_box_coder", "num_keypoints"): 2, "train_input_reader.num_keypoints": 2}
    coder |= {ssd("predictor", "convolutional_box_predictor", "box_code_size"): 8}
    coder |= {SETS: ["coco_keypoint_metrics"], "eval_input_reader": [{"num_readers": 2}]}
    assert_problems(LAYERS, coder, {"eval_input_reader[0].num_keypoints"})
    assert_fine(LAYERS, coder | {"eval_input_reader": [{"num_readers": 2, "num_keypoints": 2}]})
    masks = {SETS: ["coco_mask_metrics"], "eval_input_reader": [{"load_instance_masks": True}]}
    assert_problems(LAYERS, coder | masks, {f"{SETS}[0]"})


EVAL = "eval_config"
SETS, CATEGORY = f"{EVAL}.metrics_set", f"{EVAL}.super_categories[animal]"
BOXES = f"{EVAL}.max_num_boxes_to_visualize"
DRAWN, COLOUR = f"{EVAL}.visualize_groundtruth_boxes", f"{EVAL}.groundtruth_box_visualization_color"


def test_a_problem_is_found_where_it_is_and_what_can_be_followed_passes():
    assert_each_refused(PYRAMID, {CATEGORY: "cat,,dog", BOXES: -1, f"{EVAL}.recall_upper_bound": 1.5})
    assert_problems(PYRAMID, {SETS: "coco_detection_metric"}, {f"{SETS}[0]"})
    shapes = sorted({*MASK_SETS, *SHAPE_KINDS})
    assert_problems(PYRAMID, {SETS: [COCO_SET, *shapes]}, {f"{SETS}[{n}]" for n in range(1, 1 + len(shapes))})
    lower, upper = f"{EVAL}.recall_lower_bound", f"{EVAL}.recall_upper_bound"
    assert_problems(PYRAMID, {lower: 0.7, upper: 0.3}, {lower})
    assert_problems(PYRAMID, {DRAWN: True, COLOUR: "blak"}, {COLOUR})
    assert_fine(PYRAMID, {SETS: sorted({*MEASURED} - {*shapes}), CATEGORY: "cat, dog", BOXES: 0})
    assert_fine(PYRAMID, {DRAWN: True, COLOUR: "AliceBlue"})
    assert set(MEASURED) == {COCO_SET, "tide_metrics", *shapes, *VOC_SETS}
    assert not set(MEASURED) & set(NOT_MEASURED)
    assert len(MEASURED) + len(NOT_MEASURED) == 15
    sigma = '{{ coco_keypoint_metrics {{ keypoint_label_to_sigmas {{ key: "{}" value: {} }} }} }}'
    metric = f"{EVAL}.parameterized_metric"
    # The detector finds no keypoints.
    assert_problems(PYRAMID, {metric: [sigma.format("left_hip", 0.107)]}, {metric})
    for label, value, words in (("left_hip", 0.2, "0.107, COCO's, found 'left_hip'"), ("tail", 1, "persons")):
        problems = find_problems(changed(PYRAMID, {metric: [sigma.format(label, value)]}))
        found = [problem.message for problem in problems if "sigmas" in problem.path]
        assert len(found) == 1 and words in found[0]
    # What cannot be measured is refused with one that can.
    for name in NOT_MEASURED:
        (problem,) = find_problems(changed(PYRAMID, {SETS: name}))
        found = re.fullmatch(r".* use (.*)", problem.message)
        assert problem.path == f"{SETS}[0]" and found and found[1] in MEASURED, name
