"""Configs of TensorFlow 1, and what becomes of them."""

import itertools
from pathlib import Path

from detection_core.config.check import find_problems
from detection_core.config.legacy import tensorflow_1
from detection_core.config.legacy.conversion import convert_config
from detection_core.config.legacy.tensorflow_1 import COUNTERPARTS, KEPT, REMOVED_FIELDS, RENAMED_METRICS
from detection_core.config.load import parse_pipeline_config
from detection_core.config.metric_names import MEASURED
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.family import extractor_types
from tests.support.cases import cases, config_refused
from tests.support.configs import LAYERS, PYRAMID, TWO_STAGE, line_with

NAME = "model.ssd.feature_extractor.type"
OLD_NAMES = sorted(name for name in COUNTERPARTS if name.startswith("ssd"))
TEXT = Path(PYRAMID).read_text(encoding="utf-8")


def _old(path, name):
    """A config whose extractor has another name."""
    text = Path(path).read_text(encoding="utf-8")
    for new in sorted(COUNTERPARTS.values(), key=len, reverse=True):
        text = text.replace(new, name)
    return text


@cases(*itertools.product((PYRAMID, LAYERS), OLD_NAMES))
def test_the_name_alone_changes_and_comments_stay(*, path, name):
    old = _old(path, name)
    converted = convert_config(old, where="old.config")
    optimizer = "rms_prop_optimizer {"  # of LAYERS alone
    expected = old.replace(name, COUNTERPARTS[name]).replace(optimizer, f"{optimizer} decay: 0")
    assert converted.text == expected
    line = line_with(path, "type: ")
    assert converted.changes[0] == f"line {line}: {NAME}: {name} -> {COUNTERPARTS[name]}"
    assert len(converted.changes) == 1 + (optimizer in old)
    assert not any(note.startswith(NAME) for note in converted.notes)
    # Beside a checkpoint of its time, the old name is one problem.
    config = apply_overrides(parse_pipeline_config(old), {"train_config.fine_tune_checkpoint": "m"})
    paths = {problem.path for problem in find_problems(config)}
    assert NAME in paths and not any("fine_tune" in path for path in paths)


def test_an_extractor_with_a_counterpart_is_converted_however_it_is_written_and_others_stay():
    converted = convert_config(_old(TWO_STAGE, "faster_rcnn_resnet101"))
    config = parse_pipeline_config(converted.text)
    assert config.model.faster_rcnn.feature_extractor.type == "faster_rcnn_resnet101_keras"
    (note,) = (note for note in converted.notes if note.startswith("model.faster_rcnn.feature_extractor"))
    assert "halves the regions in the second stage" in note and "train with them" in note
    message, old = "no counterpart; set type: 'ssd_mobilenet_v1_keras'", _old(PYRAMID, "ssd_mobilenet_v1_ppn")
    error = config_refused(message, lambda: convert_config(old, where="old.config"))
    assert error.where == f"old.config:{line_with(PYRAMID, 'type: ')}"
    old = _old(PYRAMID, "ssd_mobilenet_v2").replace('"ssd_mobilenet_v2"', '"ssd_mobi" "lenet_v2"')
    converted = convert_config(old)
    expected = apply_overrides(parse_pipeline_config(old), {NAME: "ssd_mobilenet_v2_keras"})
    assert parse_pipeline_config(converted.text) == expected
    below = _old(PYRAMID, "ssd_mobilenet_v2").replace("type: ", "type:\n  # the backbone\n  ")
    assert convert_config(below).text == below.replace('"ssd_mobilenet_v2"', '"ssd_mobilenet_v2_keras"')
    for text in (TEXT, "", "train_config {}"):
        assert convert_config(text).text == text and convert_config(text).changes == ()
    config_refused("no field 'modell'", convert_config, "modell {}")


RATE = "learning_rate { constant_learning_rate {} }"


def _notes(old, start):
    return any(note.startswith(start) for note in convert_config(old).notes)


def test_what_the_new_config_lacks_is_noted():
    checkpoint = 'num_steps: 1500 fine_tune_checkpoint: "a/model.ckpt"'
    old = _old(PYRAMID, "ssd_mobilenet_v2_fpn").replace("num_steps: 1500", checkpoint)
    (note,) = convert_config(old).notes
    assert "a/model.ckpt" in note and "fine_tune_checkpoint_version: V2" in note
    told = old.replace(checkpoint, f"{checkpoint} fine_tune_checkpoint_version: V2")
    assert convert_config(told).notes == ()
    old = TEXT.replace("use_depthwise: true", "use_depthwise: true batch_norm_trainable: false", 1)
    assert "batch_norm_trainable" not in convert_config(old).text
    (note,) = convert_config(old).notes
    assert note.startswith("model.ssd.freeze_batchnorm: set it to true")
    old = Path(LAYERS).read_text(encoding="utf-8").replace("train_config {", "train_config { batch_size: 0")
    assert _notes(old, "train_config.batch_size: expected a number from 1")
    assert _notes(old, "train_config.num_steps: set it")
    assert not _notes(_old(TWO_STAGE, "faster_rcnn_resnet101"), "model.faster_rcnn: expected none")
    # Decay has another meaning.
    for field, noted in (("", True), ("decay: 0.8", True), ("decay: 0", False)):
        text = f"train_config {{ num_steps: 1 optimizer {{ rms_prop_optimizer {{ {RATE} {field} }} }} }}"
        assert _notes(text, "train_config.optimizer.rms_prop_optimizer.decay: set it to 0") == noted, field


@cases(
    (f"rms_prop_optimizer {{ decay: 0.9 {RATE} }}", f"rms_prop_optimizer {{ decay: 0 {RATE} }}"),
    (f"rms_prop_optimizer {{ {RATE} decay: 0.95 }}", f"rms_prop_optimizer {{ {RATE} decay: 0 }}"),
    (f"rms_prop_optimizer: < {RATE} >", f"rms_prop_optimizer: < decay: 0 {RATE} >"),
)
def test_decay_gets_the_meaning_that_it_had_in_tensorflow_1(*, optimizer, expected):
    model = "model { ssd { feature_extractor { type: 'ssd_mobilenet_v2' } } }"
    text = f"# mine\n{model}\ntrain_config {{ optimizer {{\n  {optimizer}\n}} }}"
    converted = convert_config(text)
    assert converted.text == text.replace(optimizer, expected).replace("_v2'", "_v2_keras'")
    assert any("line 4: train_config.optimizer.rms_prop_optimizer.decay" in c for c in converted.changes)
    discount = "TensorFlow 1 discounted squared gradients by 0.95"
    assert any(discount in note for note in converted.notes) == ("0.95" in optimizer)
    assert convert_config(converted.text).changes == ()
    # An extractor may have kept its name.
    kept = convert_config(text.replace("ssd_mobilenet_v2", "ssd_inception_v2"))
    assert kept.text == converted.text.replace("ssd_mobilenet_v2_keras", "ssd_inception_v2")
    assert convert_config(kept.text).changes == ()


def test_what_belongs_to_tensorflow_1_and_what_cannot_be_followed_is_noted():
    text = TEXT.replace("train_config: {", "train_config: { sync_replicas: true batch_queue_capacity: 8")
    text = text.replace("eval_config {", "eval_config { max_evals: 10 eval_instance_masks: true", 1)
    notes = convert_config(text).notes
    expected = ["eval_config.eval_instance_masks", "eval_config.max_evals"]
    expected += ["train_config.batch_queue_capacity", "train_config.sync_replicas"]
    assert sorted(note.partition(":")[0] for note in notes) == expected
    assert all(len(note.partition(": ")[2]) > 20 for note in notes)


@cases("\n", "\r\n")
def test_a_field_of_2018_is_removed_and_other_lines_keep_their_numbers(*, newline):
    old = _old(PYRAMID, "ssd_mobilenet_v2_fpn")
    first, _, rest = old.partition("conv_hyperparams {")
    head = first.replace("feature_extractor {", "feature_extractor {\n      batch_norm_trainable: true  ")
    old = f"{head}conv_hyperparams {{{rest}".replace("\n", newline)
    converted = convert_config(old)
    removed = "      batch_norm_trainable: true  " + newline
    expected = old.replace(removed, "").replace('"ssd_mobilenet_v2_fpn"', '"ssd_mobilenet_v2_fpn_keras"')
    assert removed in old and converted.text == expected
    line = line_with(PYRAMID, "type: ")
    assert converted.changes == (
        f"line {line}: {tensorflow_1.BATCH_NORM_TRAINABLE}: true removed, as it is no field any more",
        f"line {line + 1}: {NAME}: ssd_mobilenet_v2_fpn -> ssd_mobilenet_v2_fpn_keras",
    )
    assert converted.notes == ()
    caught = config_refused("", convert_config, old.replace("use_depthwise", "use_depthwis"))
    assert caught.where == f"line {line_with(PYRAMID, 'use_depthwise') + 1}"


def test_old_names_of_metrics_are_renamed_wherever_they_stand():
    sets = """metrics_set: ['open_images_V2_detection_metrics', "coco_detection_metrics"]
        metrics_set: 'pascal_voc_metrics'"""
    old = TEXT.replace("eval_config {", f"eval_config {{ {sets}", 1)
    converted = convert_config(old)
    new = old.replace("open_images_V2", "oid_V2").replace("voc_metrics", "voc_detection_metrics")
    assert sets in old and converted.text == new
    assert [change.partition(": ")[2] for change in converted.changes] == [
        "eval_config.metrics_set[0]: open_images_V2_detection_metrics -> oid_V2_detection_metrics",
        "eval_config.metrics_set[2]: pascal_voc_metrics -> pascal_voc_detection_metrics",
    ]


# Extractors that TensorFlow 2 has, and that a name of TensorFlow 1 may lead to.
TENSORFLOW_2 = {
    "faster_rcnn_inception_resnet_v2_keras", "faster_rcnn_resnet101_keras", "faster_rcnn_resnet152_keras",
    "faster_rcnn_resnet50_keras", "ssd_mobilenet_v1_fpn_keras", "ssd_mobilenet_v1_keras",
    "ssd_mobilenet_v2_fpn_keras", "ssd_mobilenet_v2_keras", "ssd_resnet101_v1_fpn_keras",
    "ssd_resnet152_v1_fpn_keras", "ssd_resnet50_v1_fpn_keras",
}  # fmt: skip


def test_every_counterpart_exists_no_name_is_old_and_new_and_a_message_names_what_to_do():
    assert set(COUNTERPARTS.values()) == TENSORFLOW_2
    assert set(tensorflow_1.WITHOUT_COUNTERPART.values()) <= {*TENSORFLOW_2, *KEPT}
    assert not set(COUNTERPARTS) & set(tensorflow_1.WITHOUT_COUNTERPART)
    assert {*KEPT, *TENSORFLOW_2} <= set(extractor_types())
    assert not set(KEPT) & {*COUNTERPARTS, *tensorflow_1.WITHOUT_COUNTERPART}
    assert set(RENAMED_METRICS.values()) <= set(MEASURED)
    assert not set(RENAMED_METRICS) & set(MEASURED)
    assert "`detflow config convert` writes it" in tensorflow_1.with_counterpart("ssd_mobilenet_v1")
    assert "set type: 'ssd_mobiledet_edgetpu'" in tensorflow_1.without_counterpart("ssd_spaghettinet")
    renamed = tensorflow_1.renamed_metrics("pascal_voc_metrics")
    assert renamed.startswith("its name is pascal_voc_detection_metrics now")
    *_, name = tensorflow_1.BATCH_NORM_TRAINABLE.split(".")
    assert "`detflow config convert` removes it" in REMOVED_FIELDS["SsdFeatureExtractor", name]


@cases(*REMOVED_FIELDS)
def test_a_removed_field_is_refused_with_its_line_and_what_became_of_it(*, message, name):
    place = {"Ssd": "ssd", "SsdFeatureExtractor": "ssd { feature_extractor"}[message]
    text = f"model {{ {place} {{\n {name}: 'true'" + " }" * (place.count("{") + 2)
    error = config_refused("", lambda: parse_pipeline_config(text, where="old.config"))
    assert error.where == "old.config:2"
    assert f"no field '{name}'; {REMOVED_FIELDS[message, name]}" in error.message
