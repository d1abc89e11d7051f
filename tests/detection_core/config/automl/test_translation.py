"""Hyper-parameters of google/automl as a config, against the goldens."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.builders.datasets import build_eval_dataset, build_train_dataset
from detection_core.builders.optimizer import build_learning_rate, build_optimizer
from detection_core.builders.train_plan import build_train_options
from detection_core.config.automl import translation
from detection_core.config.automl.hparams import MODELS, load_hyperparameters, model_values
from detection_core.config.automl.hyperparameters import DEFAULTS, SUPPORT
from detection_core.config.automl.train_optimization import RunLength, fill_optimization
from detection_core.config.automl.translation import RunFlags, holds_hyperparameters, translate
from detection_core.config.check import check_message, check_pipeline_config
from detection_core.config.load import format_pipeline_config, parse_pipeline_config
from detection_core.data.label_map import label_map_from_names
from detection_core.errors import ConfigError
from detection_core.families.efficientdet.settings import settings_of
from detection_core.optimizers.optimization import MovingAverage
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.protos.precision_pb2 import Precision
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.training.step import shape_gradients
from tests.detection_core.config.automl.facts import load_facts
from tests.support.cases import cases, config_refused, refused
from tests.support.golden_cases import load_cases
from tests.support.record_files import write_records

D0 = "efficientdet-d0"
# Another value of each than any model has, and what else has to be set for it to be read at all.
OTHERS = {
    "name": "mine", "act_type": "hswish", "image_size": "256x128", "target_size": 512,
    "input_rand_hflip": False, "jitter_min": 0.7, "jitter_max": 1.5, "autoaugment_policy": "randaug",
    "grid_mask": True, "sample_image": "x.jpg", "map_freq": 1, "num_classes": 7, "seg_num_classes": 4,
    "heads": ["object_detection", "segmentation"], "skip_crowd_during_training": False,
    "label_map": {1: "cat"}, "max_instances_per_image": 30, "regenerate_source_id": True, "min_level": 2,
    "max_level": 6, "num_scales": 2, "aspect_ratios": [1.0, 3.0], "anchor_scale": 2.5,
    "is_training_bn": False, "momentum": 0.5, "optimizer": "adam", "learning_rate": 0.5,
    "lr_warmup_init": 0.5, "lr_warmup_epoch": 2.0, "first_lr_drop_epoch": 100.0,
    "second_lr_drop_epoch": 260.0, "poly_lr_power": 2.0, "clip_gradients_norm": 3.0, "num_epochs": 299,
    "data_format": "channels_first", "mean_rgb": 99.0, "stddev_rgb": [1.0, 2.0, 3.0], "scale_range": True,
    "label_smoothing": 0.1, "alpha": 0.5, "gamma": 2.0, "delta": 0.2, "box_loss_weight": 25.0,
    "iou_loss_type": "ciou", "iou_loss_weight": 2.0, "weight_decay": 1e-3, "strategy": "tpu",
    "mixed_precision": True, "loss_scale": 65536, "box_class_repeats": 2, "fpn_cell_repeats": 2,
    "fpn_num_filters": 32, "separable_conv": False, "apply_bn_for_resampling": False,
    "conv_after_downsample": True, "conv_bn_act_pattern": True, "drop_remainder": False,
    "nms_configs": {"method": "hard", "iou_thresh": 0.6}, "tflite_max_detections": 25, "fpn_name": "qufpn",
    "fpn_weight_method": "attn", "fpn_config": {"nodes": [
        {"feat_level": 6, "inputs_offsets": [3, 4]}, {"feat_level": 5, "inputs_offsets": [2, 5]},
        {"feat_level": 4, "inputs_offsets": [1, 6]}, {"feat_level": 3, "inputs_offsets": [0, 7]},
        {"feat_level": 7, "inputs_offsets": [4, 8]}]},
    "survival_prob": 0.8, "img_summary_steps": 3, "lr_decay_method": "stepwise",
    "moving_average_decay": 0.9, "ckpt_var_scope": "x", "skip_mismatch": False,
    "backbone_name": "efficientnet-b8", "backbone_config": {"blocks": 1},
    "var_freeze_expr": "(efficientnet|fpn_cells)", "use_keras_model": False, "dataset_type": "x",
    "positives_momentum": 0.9, "grad_checkpoint": True, "verbose": 0, "save_freq": 10,
}  # fmt: skip
CONTEXTS = {
    "is_training_bn": {"strategy": "gpus"}, "poly_lr_power": {"lr_decay_method": "polynomial"},
    "first_lr_drop_epoch": {"lr_decay_method": "stepwise"}, "loss_scale": {"mixed_precision": True},
    "second_lr_drop_epoch": {"lr_decay_method": "stepwise"},
    "seg_num_classes": {"heads": ["object_detection", "segmentation"]},
}  # fmt: skip


def checked(config):
    check_pipeline_config(config)
    assert parse_pipeline_config(format_pipeline_config(config)) == config
    return config


def model_of(hparams, model=D0):
    return checked(translate(model, hparams).config).model.efficientdet


@cases(*DEFAULTS)
def test_every_hyperparameter_reaches_the_config_or_is_told(*, name):
    context = CONTEXTS.get(name, {})
    usual = translate(D0, context)
    try:
        found = translate(D0, {**context, name: OTHERS[name]})
    except ConfigError as error:
        assert SUPPORT[name].kind == "refused"
        assert str(error).startswith(f"hparams.{name}: expected")
        return
    try:
        checked(found.config)
    except ConfigError as error:  # of the model itself
        assert "model.efficientdet.heads: expected" in str(error) and name in ("heads", "seg_num_classes")
    changed = found.config != usual.config or found.label_map != usual.label_map
    noted = any(note.startswith(f"{name}: ") for note in found.notes)
    assert (changed, noted) == (SUPPORT[name].kind == "followed", SUPPORT[name].kind == "without effect")


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(list(MODELS)), st.sets(st.sampled_from(list(OTHERS)), max_size=6))
def test_overrides_together_give_a_config_that_checks_or_are_refused(model, names):
    try:
        found = translate(model, {name: OTHERS[name] for name in names})
    except ConfigError as error:
        assert str(error).startswith("hparams.")
        return
    try:
        checked(found.config)
    except ConfigError as error:  # what the model itself refuses
        assert str(error).startswith(("model.efficientdet.", "train_config."))


def test_a_model_means_the_same_in_both():
    for model in MODELS:
        ours, named = settings_of(model_of({}, model)), settings_of(EfficientDet(name=model, num_classes=90))
        assert ours == dataclasses.replace(named, name=ours.name), model
        assert model.startswith(ours.name)  # lite3x is lite3 with other values


def test_flags_of_the_run_become_lengths_and_paths():
    flags = RunFlags(
        batch_size=8, num_examples_per_epoch=5717, num_epochs=50, train_file_pattern="t*",
        val_file_pattern="v*", pretrained_ckpt="efficientdet-d0", label_map_path="m.pbtxt",
    )  # fmt: skip
    config = checked(translate(D0, "num_classes=20,num_epochs=3", flags).config)
    train = config.train_config
    assert (train.batch_size, train.num_steps) == (8, 50 * (5717 // 8))
    rate = train.optimizer.momentum_optimizer.learning_rate.automl_cosine_learning_rate
    assert rate.learning_rate == pytest.approx(0.08 * 8 / 64) and rate.warmup_steps == 5717 // 8
    assert list(config.train_input_reader.tf_record_input_reader.input_path) == ["t*"]
    assert list(config.eval_input_reader[0].tf_record_input_reader.input_path) == ["v*"]
    assert config.train_input_reader.label_map_path == "m.pbtxt"
    assert train.fine_tune_checkpoint == "efficientdet-d0"
    config = translate(D0).config  # which leaves the paths to be configured
    assert config.train_input_reader.label_map_path == translation.TO_BE_CONFIGURED
    assert config.eval_input_reader[0].num_epochs == 1 and not config.eval_input_reader[0].shuffle


def test_a_saved_config_gives_the_lengths_of_its_run(tmp_path):
    saved = model_values("efficientdet-lite0") | {
        "batch_size": 16, "steps_per_epoch": 7, "model_name": "efficientdet-lite0", "image_size": (320, 320),
    }  # fmt: skip
    path = tmp_path / "config.yaml"
    path.write_text(yaml.dump(saved, indent=4), encoding="utf-8")
    assert holds_hyperparameters(str(path))
    train = checked(translate("", str(path)).config).train_config
    assert (train.batch_size, train.num_steps) == (16, 300 * 7)
    smaller = translate("", str(path), RunFlags(batch_size=4)).config.train_config
    assert (smaller.batch_size, smaller.num_steps) == (4, 300 * 28)
    for text in ("", "a: [", "pipeline_name: x\n", "num_classes: 3\nother: 1\n"):
        path.write_text(text, encoding="utf-8")
        assert not holds_hyperparameters(str(path)), text
    assert not holds_hyperparameters(str(tmp_path / "none.yaml"))


def test_training_is_measured_every_so_many_epochs():
    flags = RunFlags(batch_size=8, num_examples_per_epoch=80, num_epochs=20, eval_samples=7)
    found = checked(translate(D0, "map_freq=2", flags).config).train_config.validation
    assert (found.every_steps, found.max_images, found.weights) == (20, 7, found.LAST)
    for hparams, mode in (("map_freq=2", "train"), ("map_freq=0", "traineval"), ("map_freq=30", "traineval")):
        other = translate(D0, hparams, dataclasses.replace(flags, mode=mode)).config
        assert not other.train_config.HasField("validation")
    message = "num_examples_per_epoch: expected at least the batch size, 64"
    refused(ConfigError, message, translate, D0, "", RunFlags(num_examples_per_epoch=10))


def test_values_of_the_model_are_translated_where_they_are_written_differently():
    pairs = settings_of(model_of({"aspect_ratios": [1.0, [0.5, 1.5]]}))
    assert pairs.anchor_shapes == ((1.0, 1.0), (0.5, 1.5))
    padding = model_of("mean_rgb=1*2*3").image_resizer.automl_resizer.per_channel_pad_value
    assert list(padding) == [1.0, 2.0, 3.0]  # which normalisation makes zero
    for hparams, mode in (("", "global"), ("nms_configs.pyfunc=true", "numpy_per_class")):
        assert model_of(hparams).nms_configs.mode == mode
    for hparams, restored in (("", True), ("moving_average_decay=0", False)):
        assert settings_of(model_of(hparams)).restore_moving_averages == restored
    # Their classes of batch norm by strategy: shared for gpus in training, plain for multi-gpus.
    assert settings_of(model_of("strategy=gpus")).sync_batch_norm
    for hparams in ("", "strategy=gpus,is_training_bn=false", "strategy=multi-gpus"):
        assert not settings_of(model_of(hparams)).sync_batch_norm, hparams


BLOCKS = r"hparams\.backbone_config: expected None, .* only as Python objects, .*by backbone_name"


@cases(
    ("backbone_config.blocks=r1_k3_s11_e1_i32_o16_se0.25*r2_k3_s22_e6_i16_o24_se0.25", BLOCKS),
    ("backbone_config:\n  blocks:\n  - {kernel_size: 3, num_repeat: 1, strides: [1, 1]}\n", BLOCKS),
    ("strategy=tpu", r"hparams\.strategy: expected gpus, multi-gpus or none, found 'tpu'"),
    ("nms_configs.pyfunc=true,nms_configs.method=diou", r"nms_configs\.method: .*one of gaussian, hard"),
    ("num_classes=2,label_map.3=cat", r"hparams\.label_map: .*which is 2, found 3; set num_classes=3"),
    ("tflite_max_detections=25", r"hparams\.tflite_max_detections: .*set both to one number"),
    ("fpn_config.nodes=1", r"hparams\.fpn_config: expected a table of weight_method and nodes"),
)
def test_what_is_refused_names_field_and_remedy(*, hparams, message):
    refused(ConfigError, message, translate, D0, hparams)


@cases(
    ("", "FLOAT32", None),
    ("mixed_precision=false,loss_scale=65536", "FLOAT32", None),
    ("mixed_precision=true", "AUTO", None),
    ("mixed_precision=true,strategy=gpus,loss_scale=65536", "AUTO", 65536),
    ("mixed_precision=true,strategy=multi-gpus,loss_scale=0", "AUTO", None),
)
def test_mixed_precision_is_followed(*, hparams, precision, scale):
    train = translate(D0, hparams).config.train_config
    assert Precision.Name(train.precision) == precision
    assert (train.initial_loss_scale if train.HasField("initial_loss_scale") else None) == scale


RATES = [case for case in load_facts("learning_rates")["cases"] if "error" not in case]
OPTIMIZERS = load_facts("optimizers")["cases"]


def train_config(batch_size=64, steps_per_epoch=10, **hparams):
    train = TrainConfig()
    values = load_hyperparameters(D0, hparams).values
    fill_optimization(train, values, RunLength(batch_size=batch_size, steps_per_epoch=steps_per_epoch))
    return train


def rate_message(train):
    return getattr(train.optimizer, train.optimizer.WhichOneof("optimizer") or "").learning_rate


@cases(*RATES)
def test_golden_learning_rate(*, case):
    hparams = {key: value for key, value in case["overrides"].items() if key != "batch_size"}
    method = case["name"].split("_")[0]
    train = train_config(case["batch_size"], case["steps_per_epoch"], **hparams, lr_decay_method=method)
    check_message(train, "train_config")
    assert train.num_steps == case["fact"]["total_steps"]
    schedule = build_learning_rate(rate_message(train))
    found = schedule(tf.constant(case["steps"], tf.int64))
    np.testing.assert_allclose(found, case["learning_rate"], rtol=1e-5, atol=1e-9)
    config = schedule.get_config()
    assert config["warmup_steps"] == case["fact"]["lr_warmup_step"]
    assert config["learning_rate"] == pytest.approx(case["fact"]["adjusted_learning_rate"])
    if method == "stepwise":
        drops = config["first_drop_step"], config["second_drop_step"]
        assert drops == (case["fact"]["first_lr_drop_step"], case["fact"]["second_lr_drop_step"])


@cases(*(case for case in OPTIMIZERS if "initial" in case.get("inputs", {})))
def test_golden_updates(*, case):
    train = train_config(**case["params"])
    check_message(train, "train_config")
    built = build_optimizer(train.optimizer)
    variable, gradient = tf.Variable(case["inputs"]["initial"]), tf.constant(case["inputs"]["gradient"])
    averaged = "averages" in case["outputs"]
    assert bool(built.average_decay) == averaged == (case["fact"]["wrapper"] == "MovingAverage")
    average = MovingAverage([variable], built.average_decay, from_weights=built.average_from_weights)
    values, averages = [], []
    for updates in range(1, len(case["outputs"]["values"]) // 4 + 1):
        built.optimizer.apply_gradients([(gradient, variable)])
        average.update(tf.constant(updates, tf.int64))
        values.append(variable.numpy())
        averages.append(average.averages[0].numpy())
    np.testing.assert_allclose(np.ravel(values), case["outputs"]["values"], rtol=1e-5, atol=1e-7)
    if averaged:
        np.testing.assert_allclose(np.ravel(averages), case["outputs"]["averages"], rtol=1e-5, atol=1e-7)
    config = built.optimizer.get_config()
    for key, value in case["fact"]["config"].items():
        assert config[key] == pytest.approx(value), key


@cases(*(case for case in OPTIMIZERS if case["name"] in ("clip_10", "clip_1", "clip_100")))
def test_golden_clipping(*, case):
    options = build_train_options(train_config(**case["params"]))
    variables = [tf.Variable(tf.zeros([3, 4]), name=f"g{i}") for i in range(3)]
    gradients = [tf.reshape(case["inputs"][f"g{i}"], [3, 4]) for i in range(3)]
    shaped, _ = shape_gradients(gradients, variables, options)
    for i, gradient in enumerate(shaped):
        np.testing.assert_allclose(np.ravel(gradient), case["outputs"][f"g{i}"], rtol=1e-5, atol=1e-7)
    assert float(tf.linalg.global_norm(shaped)) == pytest.approx(case["outputs"]["gradient_norm_logged"][0])


def test_a_warmup_is_theirs_and_a_training_does_not_end_right_behind_it_and_may_not_clip():
    for limit in (0, -1, None):
        train = train_config(clip_gradients_norm=limit)
        assert train.gradient_clipping_by_norm == train.gradient_clipping_by_variable_norm == 0, limit
    message = rate_message(train_config(batch_size=4))
    assert message.automl_cosine_learning_rate.learning_rate == pytest.approx(0.005)
    assert float(build_learning_rate(message)(0)) == pytest.approx(0.008)
    train = train_config(num_epochs=1)
    check_message(train, "train_config")
    train.num_steps += 1
    message = r"automl_cosine_learning_rate\.warmup_steps: .*which is 10, found 10"
    config_refused(message, check_message, train, "train_config")


CASES = load_cases(__file__, "batches")
LABELS = label_map_from_names(["a", "b", "c"])
READ = {"image_size": 64, "num_classes": 3, "max_instances_per_image": 6, "input_rand_hflip": False}
READ |= {"jitter_min": 1.0, "jitter_max": 1.0, "min_level": 3, "max_level": 5, "num_scales": 1}


def _batch(name, folder, **changed):
    given = dict(CASES[name].params)
    examples, training = given.pop("examples"), given.pop("is_training")
    assert READ.items() <= given.items()
    serialized = [CASES[example].inputs["serialized"].tobytes() for example in examples]
    records = write_records(folder / "train-00000-of-00001.tfrecord", serialized)
    files = {"train_file_pattern": records, "val_file_pattern": records}
    flags = RunFlags(batch_size=2, num_examples_per_epoch=20, **files)
    config = translate(D0, given | changed, flags).config
    config.train_input_reader.shuffle = False
    build = build_train_dataset if training else build_eval_dataset
    drawn = {"seed": 0, "cache_bytes": 0} if training else {}
    batch = next(iter(build(config, label_map=LABELS, batch_size=2, **drawn)))
    return batch, settings_of(config.model.efficientdet)


@cases(*(name for name in CASES if name.startswith("batch")))
def test_golden_batch(tmp_path, *, name):
    batch, settings = _batch(name, tmp_path)
    wanted = CASES[name].outputs
    pixels = (batch.images.pixels - tf.constant(settings.mean_rgb)) / tf.constant(settings.stddev_rgb)
    if settings.scale_range:
        pixels = pixels * 2.0 / 255.0 - 1.0
    flat = pixels.numpy().reshape(-1)
    sampled = flat[np.linspace(0, flat.size - 1, 512).astype(np.int64)]
    np.testing.assert_allclose(sampled, wanted["images"], rtol=1e-4, atol=1e-3)
    for row in range(2):
        truth = wanted["groundtruth_data"][row]
        labelled = truth[truth[:, 6] > 0]
        valid = batch.truth.valid[row].numpy()
        assert valid.sum() == len(labelled)
        boxes = batch.truth.boxes[row].numpy()[valid] * 64 * wanted["image_scales"][row]
        np.testing.assert_allclose(boxes, labelled[:, :4], rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(batch.truth.classes[row].numpy()[valid] + 1, labelled[:, 6])


def test_crowds_stay_where_they_are_not_to_be_skipped(tmp_path):
    kept = _batch("batch_train", tmp_path, skip_crowd_during_training=False)[0].truth.valid.numpy()
    skipped = CASES["batch_train"].outputs["groundtruth_data"][:, :, 6] > 0
    assert (kept.sum(axis=1) - skipped.sum(axis=1)).tolist() == [0, 1]
