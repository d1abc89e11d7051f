"""Paths of fields, their short names, and values in text."""

import re

import pytest

from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.paths import field_paths
from detection_core.config.paths.field_paths import element_index, find_targets, nearest_paths, split_path
from detection_core.config.paths.overrides import apply_overrides, field_texts, scalar_list, scalar_value
from detection_core.config.paths.short_names import SHORT_NAMES, expand_short_name
from detection_core.protos.calibration_pb2 import ClassIdSigmoidCalibrations
from detection_core.protos.eval_pb2 import EvalConfig
from detection_core.protos.input_reader_pb2 import PNG_MASKS, InputReader, TFRecordInputReader
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.train_pb2 import V2, TrainConfig
from tests.support.cases import cases, config_refused
from tests.support.configs import CENTER, LAYERS, PYRAMID, TWO_STAGE, changed

ROOT = TrainEvalPipelineConfig.DESCRIPTOR
CATEGORIES = EvalConfig.DESCRIPTOR.fields_by_name["super_categories"]
SIGMOIDS = ClassIdSigmoidCalibrations.DESCRIPTOR.fields_by_name["class_id_sigmoid_parameters_map"]


def test_a_path_is_split_at_dots_outside_brackets():
    parts = (("a", None), ("b", "c.d"), ("e", "+"))
    expected = [field_paths.Segment(name=name, index=index) for name, index in parts]
    assert split_path("a.b[c.d].e[+]", where="") == expected
    for path in ("", ".", "a.", ".a", "a..b", "a[0", "a]", "a b", "a[0]b"):
        config_refused("expected a field path", lambda path=path: split_path(path, where="here"))


def test_targets_are_found_by_positions_and_keys_and_nothing_is_set():
    config = load_pipeline_config(TWO_STAGE)
    (target,) = find_targets(config, "eval_input_reader[1].name", where="")
    assert target.container == config.eval_input_reader[1]
    every = find_targets(config, "eval_input_reader[*].name", where="")
    assert [getattr(target.container, target.field.name) for target in every] == ["day", "night"]
    config = load_pipeline_config(PYRAMID)
    find_targets(config, "model.ssd.mask_head_config.conv_hyperparams.batch_norm.decay", where="")
    assert config == load_pipeline_config(PYRAMID)
    assert [element_index(text, 3, "") for text in ("0", "2", "-1")] == [0, 2, 2]
    for text in ("3", "-4", "x", ""):
        config_refused("", element_index, text, 3, "here")
    assert (field_paths.is_map(CATEGORIES), field_paths.holds_messages(CATEGORIES)) == (True, False)
    assert (field_paths.is_map(SIGMOIDS), field_paths.holds_messages(SIGMOIDS)) == (True, True)
    assert field_paths.holds_messages(ROOT.fields_by_name["model"])
    assert field_paths.map_key(CATEGORIES, "'a.b'", "") == "a.b"
    assert field_paths.map_key(SIGMOIDS, "3", "") == 3
    config_refused("whole number", field_paths.map_key, SIGMOIDS, "cat", "here")


def test_nearest_paths_look_alike_and_indices_of_new_elements_are_known():
    assert nearest_paths("ssd.num_classes", ROOT) == ["model.ssd.num_classes"]
    assert "model.ssd.num_classes" in nearest_paths("mode.num_classes", ROOT)
    assert nearest_paths("train_config.batch_sise", ROOT)[0] == "train_config.batch_size"
    assert nearest_paths("eval_input_readers[0].shufle", ROOT)[0] == "eval_input_reader.shuffle"
    found = {index: field_paths.is_new(index) for index in ("+", "+2", "2", "+x", None)}
    assert found == {"+": True, "+2": True, "2": False, "+x": False, None: False}


TEXT = """
model { ssd { num_classes: 3 image_resizer { fixed_shape_resizer { height: 64 width: 64 } } } }
train_config {
  batch_size: 8
  data_augmentation_options { random_horizontal_flip {} }
  data_augmentation_options { random_adjust_brightness { max_delta: 0.1 } }
  freeze_variables: "a" freeze_variables: "b"
  fine_tune_checkpoint_version: V2
  from_detection_checkpoint: true
}
eval_config { super_categories { key: "animal" value: "cat,dog" } }
"""


def test_every_field_that_is_set_has_its_path_and_value_and_overrides_take_them():
    assert field_texts(parse_pipeline_config(TEXT)) == {
        "model.ssd.num_classes": "3",
        "model.ssd.image_resizer.fixed_shape_resizer.height": "64",
        "model.ssd.image_resizer.fixed_shape_resizer.width": "64",
        "train_config.batch_size": "8",
        "train_config.data_augmentation_options[0].random_horizontal_flip": "{}",
        "train_config.data_augmentation_options[1].random_adjust_brightness.max_delta": "0.100000001",
        "train_config.freeze_variables": "[a, b]",
        "train_config.fine_tune_checkpoint_version": "V2",
        "train_config.from_detection_checkpoint": "true",
        "eval_config.super_categories[animal]": "cat,dog",
    }
    config = parse_pipeline_config(TEXT)
    texts = {re.sub(r"\[\d\]", "[+]", path): text for path, text in field_texts(config).items()}
    listed = {path: text for path, text in texts.items() if "super" not in path}
    again = apply_overrides(TrainEvalPipelineConfig(), listed)
    assert again.train_config == config.train_config and again.model == config.model


TRAIN = TrainConfig.DESCRIPTOR.fields_by_name
WEIGHTS = InputReader.DESCRIPTOR.fields_by_name["sample_from_datasets_weights"]
INPUT_PATH = TFRecordInputReader.DESCRIPTOR.fields_by_name["input_path"]


@cases(
    ("batch_size", " 8 ", 8), ("batch_size", 8, 8), ("batch_size", 4294967295, 4294967295),
    ("replicas_to_aggregate", "-3", -3), ("bias_grad_multiplier", "-.5e-1", -0.05),
    ("bias_grad_multiplier", 2, 2), ("sync_replicas", "TRUE", True), ("sync_replicas", False, False),
    ("sync_replicas", "0", False), ("fine_tune_checkpoint_version", "V2", V2),
    ("fine_tune_checkpoint_version", "2", V2), ("fine_tune_checkpoint", " a 'b' ", " a 'b' "),
    ("fine_tune_checkpoint", "'a b'", "a b"), ("fine_tune_checkpoint", '"a\\n\\303\\251"', "a\né"),
    ("fine_tune_checkpoint", "C:\\models\\n", "C:\\models\\n"), ("fine_tune_checkpoint", 3, "3"),
)  # fmt: skip
def test_values_are_read_by_the_kind_of_the_field(*, name, value, expected):
    assert scalar_value(TRAIN[name], value, where="") == expected


@cases(
    ("batch_size", "8.0"), ("batch_size", -1), ("batch_size", 4294967296), ("batch_size", True),
    ("replicas_to_aggregate", 2147483648), ("bias_grad_multiplier", "inf"), ("bias_grad_multiplier", 1e39),
    ("sync_replicas", "2"), ("fine_tune_checkpoint_version", "v2"), ("fine_tune_checkpoint_version", 3),
    ("fine_tune_checkpoint", "'\\xff'"),
)  # fmt: skip
def test_values_of_another_kind_are_refused(*, name, value):
    error = config_refused("expected .* found ", lambda: scalar_value(TRAIN[name], value, where="here"))
    assert error.where == "here"


@cases(
    *((WEIGHTS, value, [0.5, 1]) for value in ("0.5,1", "[0.5, 1]", [0.5, "1"])),
    *((WEIGHTS, value, [2]) for value in (2, "2")), (WEIGHTS, "[]", []), (INPUT_PATH, "a,b", ["a,b"]),
    (INPUT_PATH, "data/[ab]-*.tfrecord", ["data/[ab]-*.tfrecord"]), (INPUT_PATH, "[a, b]", ["a", "b"]),
    (INPUT_PATH, "['a,b', \"c\"]", ["a,b", "c"]), (INPUT_PATH, ["a", "b,c"], ["a", "b,c"]),
)  # fmt: skip
def test_lists_of_numbers_and_texts(*, field, value, expected):
    assert scalar_list(field, value, where="") == expected


MOMENTUM = "train_config.optimizer.momentum_optimizer"
READERS = ("train_input_reader", "eval_input_reader.0")
RATIO = "classification_localization_weight_ratio"
RECORDS = "tf_record_input_reader.input_path"
FOCAL = "model.ssd.loss.classification_loss.weighted_sigmoid_focal"

# Short name, value, and what it sets in ssd_pyramid.config.
FIXED = [
    ("train_steps", 123, {"train_config.num_steps": 123}),
    ("eval_steps", 17, {"eval_config.num_examples": 17}),
    ("batch_size", 7, {"train_config.batch_size": 7}),
    ("use_bfloat16", True, {"train_config.use_bfloat16": True}),
    ("num_classes", 3, {"model.ssd.num_classes": 3}),
    ("momentum_optimizer_value", 0.5, {f"{MOMENTUM}.momentum_optimizer_value": 0.5}),
    ("mask_type", 2, {f"{reader}.mask_type": PNG_MASKS for reader in READERS}),
    ("label_map_path", "m", {f"{reader}.label_map_path": "m" for reader in READERS}),
    ("train_input_path", "a,b", {f"train_input_reader.{RECORDS}": ["a,b"]}),
    ("train_input_path", ["a", "b"], {f"train_input_reader.{RECORDS}": ["a", "b"]}),
    ("eval_input_path", "e", {f"eval_input_reader.0.{RECORDS}": ["e"]}),
    ("sample_1_of_n_eval_examples", 5, {"eval_input_reader.0.sample_1_of_n_examples": 5}),
    ("eval_num_epochs", 2, {"eval_input_reader.0.num_epochs": 2}),
    ("retain_original_images_in_eval", False, {"eval_config.retain_original_images": False}),
    ("eval_with_moving_averages", True, {"eval_config.use_moving_averages": True}),
    ("focal_loss_gamma", 1.5, {f"{FOCAL}.gamma": 1.5}),
    ("focal_loss_alpha", 0.5, {f"{FOCAL}.alpha": 0.5}),
    (RATIO, 4, {"model.ssd.loss.classification_weight": 4, "model.ssd.loss.localization_weight": 1}),
]


def read(message, path):
    for name in path.split("."):
        message = message[int(name)] if name.isdigit() else getattr(message, name)
    return message


@cases(*FIXED)
def test_a_short_name_sets_its_fields(*, name, value, expected):
    config = changed(PYRAMID, {name: value})
    assert {path: read(config, path) for path in expected} == expected


def test_the_checkpoint_to_start_from_may_be_dropped_and_the_batch_left_to_the_memory():
    for value, kept in {"false": False, False: False, "true": True, True: True}.items():
        config = changed(PYRAMID, [("fine_tune_checkpoint", "a/ckpt-0"), ("load_pretrained", value)])
        assert config.train_config.HasField("fine_tune_checkpoint") == kept, value
    for name in ("batch_size", "train_config.batch_size", "train_config.gradient_accumulation_steps"):
        train = changed(PYRAMID, {name: "auto"}).train_config
        assert (train.batch_size, train.gradient_accumulation_steps) == (16, 0), name
    config_refused("num_steps", changed, PYRAMID, {"train_config.num_steps": "auto"})


def rate(config):
    optimizer = config.train_config.optimizer
    return getattr(optimizer, optimizer.WhichOneof("optimizer")).learning_rate


def test_a_learning_rate_keeps_the_form_of_its_schedule():
    config = TrainEvalPipelineConfig()
    schedule = config.train_config.optimizer.momentum_optimizer.learning_rate.automl_cosine_learning_rate
    schedule.learning_rate, schedule.warmup_learning_rate, schedule.total_steps = 0.08, 0.008, 9
    found = rate(apply_overrides(config, {"learning_rate": 0.02})).automl_cosine_learning_rate
    assert (found.learning_rate, found.warmup_learning_rate) == pytest.approx((0.02, 0.002))
    # 0.5 of a base of 0.08 is a factor of 6.25, for the warm-up's 0.02 too.
    cosine = rate(changed(PYRAMID, {"learning_rate": 0.5})).cosine_decay_learning_rate
    assert (cosine.learning_rate_base, cosine.total_steps) == (0.5, 1500)
    assert cosine.warmup_learning_rate == pytest.approx(0.125)
    manual = rate(changed(LAYERS, {"learning_rate": "0.02"})).manual_step_learning_rate
    assert manual.initial_learning_rate == pytest.approx(0.02)
    assert [step.learning_rate for step in manual.schedule] == pytest.approx([0.002, 0.0002])
    exponential = rate(changed(TWO_STAGE, {"learning_rate": 0.25})).exponential_decay_learning_rate
    assert exponential.initial_learning_rate == 0.25
    config = changed(CENTER, {"learning_rate": 0.25})
    assert rate(config).constant_learning_rate.learning_rate == 0.25
    config.train_config.optimizer.adam_optimizer.ClearField("learning_rate")
    config = apply_overrides(config, {"learning_rate": 0.125})
    assert rate(config).constant_learning_rate.learning_rate == 0.125


def test_every_reader_and_stage_gets_its_own_fields():
    model = changed(TWO_STAGE, {"num_classes": 2, RATIO: 3}).model.faster_rcnn
    assert model.num_classes == 2
    weights = (model.second_stage_classification_loss_weight, model.second_stage_localization_loss_weight)
    assert weights == (3, 1)
    config = changed(TWO_STAGE, {"label_map_path": "m"})
    assert [reader.label_map_path for reader in config.eval_input_reader] == ["m", "m"]
    only_training = changed(CENTER, {"label_map_path": "m"})
    assert only_training.train_input_reader.label_map_path == "m"
    assert not only_training.eval_input_reader


@cases(
    (TWO_STAGE, "momentum_optimizer_value", "an optimizer with momentum, found adam_optimizer"),
    (LAYERS, "focal_loss_gamma", "expected the loss weighted_sigmoid_focal, found weighted_sigmoid"),
    (CENTER, "focal_loss_gamma", "expected a model of ssd or faster_rcnn, found center_net"),
    (CENTER, "eval_input_path", "matches nothing"),
    (PYRAMID, "learning_rates", "did you mean learning_rate"),
    (PYRAMID, "learning_rate", "expected a number, found much"),
    (PYRAMID, "load_pretrained", "override load_pretrained: expected true or false, found 'much'"),
)
def test_a_name_that_does_not_fit_the_config_is_refused(*, path, name, message):
    config_refused(message, changed, path, {name: "much"})


def test_no_value_changes_nothing_and_without_a_model_or_optimizer_there_is_nothing_to_set():
    config = load_pipeline_config(PYRAMID)
    config.ClearField("model")
    config.ClearField("train_config")
    for name, message in (("num_classes", "no model"), ("learning_rate", "no optimizer")):
        config_refused(message, apply_overrides, config, {name: 3})
    config = load_pipeline_config(PYRAMID)
    assert apply_overrides(config, dict.fromkeys(SHORT_NAMES)) == config
    assert expand_short_name(config, "train_config.num_steps", 3) == [("train_config.num_steps", 3)]
