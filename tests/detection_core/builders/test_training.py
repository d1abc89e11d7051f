"""What a config says of training and evaluation."""

import functools
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.evaluation import MAP
from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.builders.datasets import with_steps
from detection_core.builders.evaluation_settings import AS_CONFIGURED, EvaluateOptions, with_eval_config
from detection_core.builders.input_pipeline import ScoreColumns, build_label_targets, score_columns
from detection_core.builders.optimizer import build_learning_rate, build_optimizer
from detection_core.builders.train_plan import (
    build_fine_tune_options,
    build_loggers,
    build_optimization,
    build_profile,
    build_train_options,
    build_train_plan,
    build_training_identity,
    build_training_outline,
    build_validation,
    build_without_data,
    freezes_batch_norm,
)
from detection_core.config.check import check_message, check_pipeline_config, check_training, find_problems
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.messages.pipeline import label_problems
from detection_core.config.paths.overrides import apply_overrides
from detection_core.data.batch import LabelTargets
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.metric_sets import MetricOptions
from detection_core.evaluation.pictures import PictureOptions
from detection_core.loggers.open_loggers import LoggerOptions
from detection_core.optimizers.optimization import MovingAverage
from detection_core.protos import optimizer_pb2, pipeline_pb2
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.training.actions import ProfileOptions
from detection_core.training.distribution import Reproducibility
from detection_core.training.loop_options import TrainOptions
from detection_core.training.precision import Precision
from tests.support.cases import cases, config_refused, refused
from tests.support.configs import PYRAMID, assert_any, checked, parsed
from tests.support.record_files import numbered_example, write_records
from tests.support.tiny_training import MOBILENET, config_text

CONFIG = parse_pipeline_config(config_text(7))


def _plan(changes):
    return build_train_plan(apply_overrides(CONFIG, changes))


def test_a_plan_has_what_the_config_says():
    plan = build_train_plan(CONFIG, log_every=3, checkpoint_minutes=0.5)
    assert (plan.options.num_steps, plan.options.log_every, plan.options.checkpoint_minutes) == (7, 3, 0.5)
    assert (plan.batch_size, plan.label_map_path) == (2, "")
    assert not plan.keeps_average and not plan.writes_average
    changes = {
        "train_input_reader.label_map_path": "/data/labels.pbtxt",
        "train_config.optimizer.use_moving_average": True,
        "eval_config.use_moving_averages": True,
    }
    plan = _plan(changes)
    assert plan.label_map_path == "/data/labels.pbtxt" and plan.keeps_average and plan.writes_average


def test_precision_optimizer_and_seed_are_the_config_s():
    for asked in (None, *Precision):
        plan = _plan({"precision": "AUTO" if asked is None else asked.name})
        assert plan.precision is asked
        assert plan.options.precision is Precision.FLOAT32 and plan.options.initial_loss_scale == 2**15
        assert plan.computing_in(Precision.FLOAT16).options.precision is Precision.FLOAT16
    assert _plan({"train_config.initial_loss_scale": 64}).options.initial_loss_scale == 64
    assert build_optimization(CONFIG).average_decay == 0.0
    averaged = apply_overrides(CONFIG, {"train_config.optimizer.use_moving_average": True})
    assert build_optimization(averaged).average_decay == pytest.approx(0.9999)
    assert build_train_plan(CONFIG).reproducibility == Reproducibility()
    seeded = Reproducibility(seed=5, seeds_weights=True)
    assert _plan({"train_config.seed": 5}).reproducibility == seeded
    deterministic = Reproducibility(seeds_weights=True, deterministic=True)
    assert _plan({"train_config.deterministic": True}).reproducibility == deterministic


def test_the_loop_gets_what_the_config_says():
    parse = functools.partial(parsed, TrainConfig)
    config = parse(
        "num_steps: 700 gradient_clipping_by_norm: 10 bias_grad_multiplier: 2 add_regularization_loss: false"
        " freeze_variables: 'a' freeze_variables: 'b' update_trainable_variables: 'c'"
        " summarize_gradients: true batch_size: 32 keep_checkpoint_every_n_hours: 2.5"
    )
    assert build_train_options(config, log_every=7) == TrainOptions(
        num_steps=700, log_every=7, checkpoint_every=70, keep_checkpoint_every_n_hours=2.5, batch_size=32,
        gradient_clipping_by_norm=10.0, bias_grad_multiplier=2.0, add_regularization_loss=False,
        freeze_variables=("a", "b"), update_trainable_variables=("c",), summarize_gradients=True,
    )  # fmt: skip
    assert build_train_options(parse("num_steps: 50000")).checkpoint_every == 1000
    config_refused(r"train_config.num_steps.*without end", check_training, parse_pipeline_config(""))
    assert build_train_options(parse("num_steps: 9")).checkpoint_minutes == 5.0
    assert build_train_options(parse("num_steps: 9"), checkpoint_minutes=0.5).checkpoint_minutes == 0.5
    message = r"checkpoint_minutes: expected 0, .*or more, found -1"
    refused(ConfigError, message, build_train_options, parse("num_steps: 9"), checkpoint_minutes=-1.0)


def _config(place, extra=""):
    records = f"tf_record_input_reader {{ input_path: '/{place}/a-*' input_path: '/{place}/b' }}"
    reader = f"label_map_path: '/{place}[1]/labels.pbtxt' shuffle: false {records}"
    return parse_pipeline_config(f"{config_text()} train_input_reader {{ {reader} }} {extra}")


def _identity(place, extra=""):
    return build_training_identity(_config(place, extra))


def test_where_files_lie_and_how_a_training_is_followed_and_evaluated_is_left_out():
    evaluation = "eval_config { num_examples: 3 } eval_input_reader {}"
    here, there = _identity("here"), _identity("there", evaluation)
    assert here.text == there.text and "shuffle: false" in here.text
    assert here.inputs == ("/here[[]1]/labels.pbtxt", "/here/a-*", "/here/b")
    # As the first published layout wrote it; another text would lose every unfinished training.
    assert hashlib.sha256(here.text.encode()).hexdigest()[:16] == "58ca700720fe1500"
    config = apply_overrides(_config("here"), {"train_config.monitoring.mlflow.experiment": "x"})
    before = config.SerializeToString()
    assert build_training_identity(config).text == here.text
    assert config.SerializeToString() == before


def test_what_a_validated_training_is_measured_on_and_how_makes_it_another():
    def validated(place, **evaluation):
        records = f"tf_record_input_reader {{ input_path: '/{place}/c' }}"
        config = _config("here", f"eval_input_reader {{ label_map_path: '{place}' {records} }}")
        fields = {f"eval_config.{name}": value for name, value in evaluation.items()}
        return build_training_identity(apply_overrides(config, {"train_config.validation": {}, **fields}))

    assert validated("x").inputs == (*_identity("here").inputs, "x", "/x/c")
    assert validated("x").text == validated("y").text != _identity("here").text
    drawn = validated("x", num_visualizations=3)
    measured = validated("x", num_visualizations=3, use_moving_averages=True)
    assert drawn.text == validated("x").text != measured.text


KEYPOINTS = "train_input_reader { num_keypoints: 2 keypoint_type_weight: [1, 0.5] }"
SCORES = "train_input_reader { load_multiclass_scores: true } "


def _labelled(*texts):
    message = pipeline_pb2.TrainEvalPipelineConfig()
    for text in ("model { ssd { num_classes: 4 } }", *texts):
        message.MergeFrom(parse_pipeline_config(text))
    return message


@cases(
    ("", LabelTargets(classes=4)),
    (SCORES, LabelTargets(classes=4)),
    (SCORES + "train_config { use_multiclass_scores: true }", LabelTargets(classes=4, use_scores=True)),
    ("train_config { merge_multiple_label_boxes: true }", LabelTargets(classes=4, merge_equal_boxes=True)),
    ("model { ssd { explicit_background_class: true } }", LabelTargets(classes=3)),
    (KEYPOINTS, LabelTargets(classes=4, keypoint_weights=(1.0, 0.5))),
)
def test_fields_become_options(*, text, targets):
    assert build_label_targets(_labelled(text)) == targets


def test_what_is_trained_on_must_be_read():
    scores = _labelled("train_config { use_multiclass_scores: true }")
    assert_any(find_problems(scores), "^train_config.use_multiclass_scores: .*load_multiclass_scores: true")
    coder = "model { ssd { box_coder { keypoint_box_coder { num_keypoints: 3 } } } }"
    assert not list(label_problems(_labelled(coder, "train_input_reader { num_keypoints: 3 }")))
    message = "^train_input_reader.num_keypoints: expected the 3 keypoints.*set num_keypoints: 3"
    assert_any(find_problems(_labelled(coder, "train_config {}")), message)
    # An explicit background is one of the columns and no class.
    config = _labelled("model { ssd { explicit_background_class: true } }")
    assert score_columns(config.model) == ScoreColumns(count=4, background=True)
    assert score_columns(_labelled("").model) == ScoreColumns(count=4, background=False)


COUNTED = """
model { ssd { num_classes: 3 image_resizer { fixed_shape_resizer { height: 8 width: 10 } } } }
train_config { batch_size: 4 %s }
train_input_reader { label_map_path: "%s" %s tf_record_input_reader { input_path: "%s" } }
"""


def _counted(folder, train, reader=""):
    label_map = folder / "label_map.pbtxt"
    label_map.write_text("item { id: 1 name: 'one' }")
    return parse_pipeline_config(COUNTED % (train, label_map, reader, folder / "all.tfrecord"))


def test_the_examples_are_counted_unless_a_config_is_in_steps(tmp_path):
    write_records(tmp_path / "all.tfrecord", [numbered_example(i) for i in range(23)])
    assert with_steps(_counted(tmp_path, "num_epochs: 3")).train_config.num_steps == 17
    sparse = _counted(tmp_path, "num_epochs: 3", "sample_1_of_n_examples: 2")
    assert with_steps(sparse).train_config.num_steps == 9
    assert sparse.train_config.num_epochs == 3  # the config itself is left as it is
    (tmp_path / "all.tfrecord").unlink()
    config = _counted(tmp_path, "num_steps: 3")
    assert with_steps(config) is config
    refused(DataError, "", with_steps, _counted(tmp_path, "num_epochs: 3"))


def test_choices_have_the_names_of_their_messages_and_what_needs_no_data_is_built():
    found = build_training_outline(load_pipeline_config(PYRAMID))
    assert (found.optimizer, found.schedule) == ("momentum_optimizer", "cosine_decay_learning_rate")
    assert (found.num_steps, found.batch_size) == (1500, 16)
    assert found.augmentations[:2] == ("random_horizontal_flip", "random_crop_image")
    assert found.quantization == QuantizationOptions(delay=200, weight_bits=8, activation_bits=8)
    config = parse_pipeline_config(config_text())
    build_without_data(config)
    for field, value in (("train_config.use_multiclass_scores", True), ("model.ssd.image_resizer", "unset")):
        config_refused(field, check_pipeline_config, apply_overrides(config, {field: value}))
    for text in ("", "train_config { optimizer { } }"):
        found = build_training_outline(parse_pipeline_config(text))
        assert (found.optimizer, found.schedule, found.num_steps, found.augmentations) == ("", "", 0, ())
        assert found.quantization is None


DATA = Path(__file__).parent / "data"
RATES = json.loads((DATA / "learning_rates.json").read_text())
CASES = json.loads((DATA / "optimizers.json").read_text())["cases"]


@cases(*RATES["cases"])
def test_learning_rate(*, case):
    message = parsed(optimizer_pb2.LearningRate, case["config"])
    if case.get("error"):
        config_refused("", check_message, message, "rate")
        return
    schedule = build_learning_rate(checked(message))
    found = [float(schedule(tf.constant(step, tf.int64))) for step in RATES["steps"]]
    np.testing.assert_allclose(found, case["learning_rate"], rtol=1e-5, atol=1e-9)


@cases(*CASES)
def test_optimizer(*, case):
    message = parsed(optimizer_pb2.Optimizer, case["config"])
    if case.get("error"):
        config_refused("", check_message, message, "optimizer")
        return
    built = build_optimizer(checked(message))
    variable = tf.Variable(tf.constant(case["initial"]))
    average = MovingAverage([variable], built.average_decay)
    assert bool(built.average_decay) == ("average" in case)
    values, averages = [], []
    for t, gradient in enumerate(np.reshape(case["gradients"], [5, 4]), start=1):
        built.optimizer.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
        average.update(tf.constant(t, tf.int64))
        values.append(variable.numpy())
        averages.append(average.averages[0].numpy())
    np.testing.assert_allclose(values, np.reshape(case["variable"], [5, 4]), rtol=1e-5, atol=1e-6)
    if "average" in case:
        np.testing.assert_allclose(averages, np.reshape(case["average"], [5, 4]), rtol=1e-5, atol=1e-6)
    slots = [name for name in ("momentum", "rms", "m", "v") if f"slot_{name}" in case]
    assert slots
    for name in slots:
        found = built.optimizer.get_slot(variable, name)
        np.testing.assert_allclose(found, case[f"slot_{name}"], rtol=1e-5, atol=1e-6, err_msg=name)


@cases(("", True), ("decay: 0", False))
def test_a_rate_that_falls_by_itself_is_told(caplog, *, decay, warned):
    rate = "learning_rate { constant_learning_rate { learning_rate: 0.1 } }"
    message = parsed(optimizer_pb2.Optimizer, f"rms_prop_optimizer {{ {rate} {decay} }}")
    built = build_optimizer(message)
    variable = tf.Variable([1.0])
    for _ in range(2):
        built.optimizer.apply_gradients([(tf.ones([1]), variable)])
    assert float(built.learning_rate()) == pytest.approx(0.1 / 2.8 if warned else 0.1)
    assert ("decay 0.9 divides the learning rate by 1 + 0.9 x updates" in caplog.text) == warned


def _started(path, **fields):
    changes = {f"train_config.{name}": value for name, value in fields.items()}
    changes["train_config.fine_tune_checkpoint"] = path
    return apply_overrides(parse_pipeline_config(config_text()), changes)


def test_what_a_config_wants_of_a_checkpoint():
    v2 = {"fine_tune_checkpoint_version": "V2"}
    wanted = FineTuneOptions(kind="full", extractor=MOBILENET)
    assert build_fine_tune_options(_started("x", fine_tune_checkpoint_type="full", **v2)) == wanted
    assert build_fine_tune_options(_started("x", **v2)).kind == "classification"
    assert build_fine_tune_options(_started("x", from_detection_checkpoint=True, **v2)).kind == "detection"
    named = build_fine_tune_options(_started("x", load_all_detection_checkpoint_vars=True))
    assert named.named and named.heads
    of_zoo = build_fine_tune_options(_started("zoo:ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"))
    assert of_zoo == wanted, "an object-based checkpoint, which gives all that fits"
    frozen = apply_overrides(_started("x"), {"model.ssd.freeze_batchnorm": True})
    assert freezes_batch_norm(frozen) and not freezes_batch_norm(_started("x"))


def config(block):
    return parsed(TrainConfig, f"monitoring {{ {block} }}")


def test_profiles_and_trackers_are_those_that_are_asked_for():
    assert build_profile(config("")) is None
    assert build_profile(config("profile {}")) == ProfileOptions(first_step=10, steps=5)
    assert build_profile(config("profile { first_step: 3 steps: 2 }")) == ProfileOptions(
        first_step=3, steps=2
    )
    assert build_loggers(config("")) == LoggerOptions()
    assert build_loggers(config("mlflow {} wandb {}")).trackers == {
        "mlflow": {"tracking_uri": "", "experiment": "detflow", "run_name": ""},
        "wandb": {"project": "detflow", "entity": "", "run_name": ""},
    }
    block = "mlflow { tracking_uri: 'http://x:5000' experiment: 'e' run_name: 'r' } metric_lines: true"
    block += " wandb { project: 'p' entity: 't' run_name: 'n' }"
    mlflow = dict(tracking_uri="http://x:5000", experiment="e", run_name="r")
    wandb = dict(project="p", entity="t", run_name="n")
    assert build_loggers(config(block)) == LoggerOptions(
        trackers={"mlflow": mlflow, "wandb": wandb}, metric_lines=True
    )


def build(**fields):
    config = parse_pipeline_config(f"{config_text()} eval_input_reader {{ }}")
    return build_validation(apply_overrides(config, fields), checkpoint_every=50)


def test_an_empty_block_validates_with_each_checkpoint_by_coco_s_map():
    assert build() is None
    plan = build(**{"train_config.validation": {}})
    found = (plan.options.every_steps, plan.options.every_minutes, plan.options.objective)
    assert found == (50, 0, {MAP: 1.0})
    assert (plan.options.keep_best, plan.options.patience, plan.max_images) == (1, 0, 0)
    assert plan.writes_best and not plan.options.averaged
    plan = build(**{"eval_config.eval_interval_secs": 90})  # an old field
    assert (plan.options.every_steps, plan.options.every_minutes) == (0, 1.5)
    both = {"eval_config.eval_interval_secs": 90, "train_config.validation.every_steps": 10}
    assert (build(**both).options.every_steps, build(**both).options.every_minutes) == (10, 0)
    config = parse_pipeline_config(config_text())
    block = apply_overrides(config, {"train_config.validation.patience": 1})
    config_refused("expected an eval_input_reader", check_training, block)
    interval = apply_overrides(config, {"eval_config.eval_interval_secs": 60})
    assert build_validation(interval, checkpoint_every=1) is None


def test_every_field_is_followed():
    block = {
        "every_steps": 7, "every_minutes": 1.5, "max_images": 9, "keep_best": 3, "patience": 4,
        "metric": [{"name": "a", "weight": 0.25}, {"name": "b"}], "min_gain": 0.125, "weights": "LAST",
    }  # fmt: skip
    plan = build(**{"train_config.validation": block, "eval_config.use_moving_averages": True})
    o = plan.options
    assert (o.every_steps, o.every_minutes, o.objective) == (7, 1.5, {"a": 0.25, "b": 1.0})
    assert (o.keep_best, o.patience, o.min_gain, o.averaged) == (3, 4, 0.125, True)
    assert plan.max_images == 9 and not plan.writes_best


def test_options_of_an_evaluation_are_as_the_message_says():
    text = """eval_config {
      num_visualizations: 3 min_score_threshold: 0.25 skip_labels: true max_num_boxes_to_visualize: 7
      visualize_groundtruth_boxes: true groundtruth_box_visualization_color: "AliceBlue"
      keypoint_edge { start: 0 end: 2 }
      metrics_set: "coco_detection_metrics" include_metrics_per_category: true
      skip_predictions_for_unlabeled_class: true recall_lower_bound: 0.25 recall_upper_bound: 0.75
      super_categories { key: "pets" value: "cat, dog" }
    }"""
    given = EvaluateOptions(pictures=AS_CONFIGURED)
    found = with_eval_config(given, parse_pipeline_config(text))
    assert (found.pictures, found.min_score) == (3, 0.25)
    drawn = PictureOptions(
        most_boxes=7, names=False, scores=True, truth_colour=(240, 248, 255), keypoint_edges=((0, 2),)
    )
    assert found.drawing == drawn
    assert found.metrics == MetricOptions(
        sets=("coco_detection_metrics",), per_category=True, all_per_category=False,
        groups={"pets": ("cat", "dog")}, only_labelled=True, recall_bounds=(0.25, 0.75),
    )  # fmt: skip
    metric = "parameterized_metric { coco_keypoint_metrics { class_label: 'person' } }"
    asked = with_eval_config(given, parse_pipeline_config(f"eval_config {{ {metric} {metric} }}"))
    assert asked.metrics.sets == ("coco_keypoint_metrics",)
    plain = with_eval_config(given, parse_pipeline_config("eval_config { skip_scores: true }"))
    assert plain.min_score is None
    assert not plain.drawing.scores and plain.drawing.truth_colour is None
