from pathlib import Path

import pytest

from detection_core.config.conversion import COUNTERPARTS, WITHOUT_COUNTERPART, convert_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.overrides import apply_overrides
from detection_core.errors import ConfigError
from tests.detection_core.config.configs import LAYERS, PYRAMID, TWO_STAGE, line_with

# Extractors that TensorFlow 2 has, and that a name of TensorFlow 1 may lead to.
TENSORFLOW_2 = {
    "faster_rcnn_inception_resnet_v2_keras", "faster_rcnn_resnet101_keras", "faster_rcnn_resnet152_keras",
    "faster_rcnn_resnet50_keras", "ssd_mobilenet_v1_fpn_keras", "ssd_mobilenet_v1_keras",
    "ssd_mobilenet_v2_fpn_keras", "ssd_mobilenet_v2_keras", "ssd_resnet101_v1_fpn_keras",
    "ssd_resnet152_v1_fpn_keras", "ssd_resnet50_v1_fpn_keras",
}  # fmt: skip
NAME = "model.ssd.feature_extractor.type"


def _old(path: str, name: str) -> str:
    """A config whose extractor has another name."""
    text = Path(path).read_text(encoding="utf-8")
    for new in sorted(TENSORFLOW_2, key=len, reverse=True):
        text = text.replace(new, name)
    return text


def test_every_counterpart_exists_in_tensorflow_2():
    assert set(COUNTERPARTS.values()) == TENSORFLOW_2
    assert set(WITHOUT_COUNTERPART.values()) <= TENSORFLOW_2
    assert not set(COUNTERPARTS) & set(WITHOUT_COUNTERPART)


@pytest.mark.parametrize("name", sorted(n for n in COUNTERPARTS if n.startswith("ssd")))
@pytest.mark.parametrize("path", [PYRAMID, LAYERS], ids=["double quotes", "single quotes"])
def test_the_name_alone_changes_and_comments_stay(path, name):
    old = _old(path, name)
    converted = convert_config(old, where="old.config")
    assert converted.text == old.replace(name, COUNTERPARTS[name])
    line = line_with(path, "type: ")
    assert converted.changes == (f"line {line}: {NAME}: {name} -> {COUNTERPARTS[name]}",)
    assert converted.notes == ()


def test_a_two_stage_detector_is_converted_too():
    converted = convert_config(_old(TWO_STAGE, "faster_rcnn_resnet101"))
    config = parse_pipeline_config(converted.text)
    assert config.model.faster_rcnn.feature_extractor.type == "faster_rcnn_resnet101_keras"


def test_a_name_written_in_an_odd_way_is_converted_and_the_rest_is_equal():
    old = _old(PYRAMID, "ssd_mobilenet_v2").replace('"ssd_mobilenet_v2"', '"ssd_mobi" "lenet_v2"')
    converted = convert_config(old)
    expected = apply_overrides(parse_pipeline_config(old), {NAME: "ssd_mobilenet_v2_keras"})
    assert parse_pipeline_config(converted.text) == expected
    below = _old(PYRAMID, "ssd_mobilenet_v2").replace("type: ", "type:\n  # the backbone\n  ")
    assert convert_config(below).text == below.replace('"ssd_mobilenet_v2"', '"ssd_mobilenet_v2_keras"')


@pytest.mark.parametrize("text", [Path(PYRAMID).read_text(encoding="utf-8"), "", "train_config {}"])
def test_what_needs_no_change_stays(text):
    assert convert_config(text).text == text and convert_config(text).changes == ()


def test_an_extractor_without_counterpart_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"no counterpart; ssd_mobilenet_v2_keras comes nearest") as caught:
        convert_config(_old(PYRAMID, "ssd_inception_v2"), where="old.config")
    assert caught.value.where == f"old.config:{line_with(PYRAMID, 'type: ')}"


def test_a_checkpoint_of_tensorflow_1_is_pointed_out():
    checkpoint = 'num_steps: 1500 fine_tune_checkpoint: "a/model.ckpt"'
    old = _old(PYRAMID, "ssd_mobilenet_v2").replace("num_steps: 1500", checkpoint)
    (note,) = convert_config(old).notes
    assert "a/model.ckpt" in note and "fine_tune_checkpoint_version: V2" in note
    assert (
        convert_config(old.replace(checkpoint, f"{checkpoint} fine_tune_checkpoint_version: V2")).notes == ()
    )


def test_a_text_that_is_no_config_is_one_error():
    with pytest.raises(ConfigError, match="no field 'modell'"):
        convert_config("modell {}", where="old.config")


def test_what_belongs_to_tensorflow_1_and_what_cannot_be_followed_is_noted():
    text = Path(PYRAMID).read_text(encoding="utf-8")
    for message, fields in (
        ("train_config:", "sync_replicas: true batch_queue_capacity: 8"),
        ("eval_config", "max_evals: 10 eval_instance_masks: true"),
    ):
        text = text.replace(f"{message} {{", f"{message} {{ {fields}", 1)
    notes = convert_config(text).notes
    assert sorted(note.partition(":")[0] for note in notes) == [
        "eval_config.eval_instance_masks",
        "eval_config.max_evals",
        "train_config.batch_queue_capacity",
        "train_config.sync_replicas",
    ]
    assert all(len(note.partition(": ")[2]) > 20 for note in notes)
