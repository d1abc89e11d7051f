import pytest

from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.paths.short_names import SHORT_NAMES, expand_short_name
from detection_core.protos.input_reader_pb2 import PNG_MASKS
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import cases, config_refused
from tests.support.configs import CENTER, LAYERS, PYRAMID, TWO_STAGE, changed

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


def test_a_value_that_is_not_given_changes_nothing_and_a_full_path_stays():
    config = load_pipeline_config(PYRAMID)
    assert apply_overrides(config, dict.fromkeys(SHORT_NAMES)) == config
    expanded = expand_short_name(config, "train_config.num_steps", 3)
    assert expanded == [("train_config.num_steps", 3)]


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


def test_without_a_model_or_optimizer_there_is_nothing_to_set():
    config = load_pipeline_config(PYRAMID)
    config.ClearField("model")
    config.ClearField("train_config")
    for name, message in (("num_classes", "no model"), ("learning_rate", "no optimizer")):
        config_refused(message, apply_overrides, config, {name: 3})
