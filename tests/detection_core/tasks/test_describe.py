"""The description of a config without data."""

import json

import numpy as np
import pytest
import tf_keras

from detection_core.config.check import check_detector, check_pipeline_config
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.storage import files
from detection_core.tasks.describe import _parts, count_flops, describe
from tests.support.cases import cases, refused
from tests.support.configs import PYRAMID
from tests.support.field_checkpoints import write_named_checkpoint, write_object_checkpoint
from tests.support.object_store import s3_server
from tests.support.zoo_configs import zoo_config, zoo_facts

OBJECTS = ("model/_feature_extractor/a/kernel", "model/_box_predictor/b/kernel")
CLASSIFIER = ("MobilenetV2/Conv/weights",)
BACKBONE = "feature_extractor/layer_with_weights-0/kernel"


def test_operations_are_two_for_each_multiply_add_at_every_place_a_layer_is_called():
    fine, coarse = tf_keras.Input((8, 6, 3)), tf_keras.Input((4, 3, 3))
    shared = tf_keras.layers.Conv2D(5, 3, padding="same")
    maps = [shared(fine), shared(coarse)]
    deep = tf_keras.layers.DepthwiseConv2D(3, strides=2, padding="same")(maps[0])
    flat = tf_keras.layers.Flatten()(tf_keras.layers.BatchNormalization()(deep))
    network = tf_keras.Model([fine, coarse], [tf_keras.layers.Dense(7)(flat), maps[1]])
    convolutions = 2 * (3 * 3 * 3 * 5) * (8 * 6 + 4 * 3)
    assert count_flops(network) == convolutions + (2 * (3 * 3 * 5) * (4 * 3)) + (2 * (4 * 3 * 5) * 7)


def test_a_config_is_described_without_data():
    changes = {"model.ssd.feature_extractor.depth_multiplier": 0.35, "model.ssd.num_classes": 3}
    found = describe(apply_overrides(load_pipeline_config(PYRAMID), changes))
    assert found.architecture == "ssd"
    assert (found.input_shape.size, found.classes) == ((256, 256), 3)
    # Three ratios of two scales on every place of levels 3 to 6.
    data = json.loads(json.dumps(found.data()))
    assert (data["family"], data["neck"], data["anchors"]) == ("mobilenet_v2", "fpn", 8160)
    sides = (32, 16, 8, 4)
    assert data["levels"] == [{"rows": n, "columns": n, "anchors": 6 * n * n} for n in sides]
    assert 0 < found.trainable_parameters < found.parameters and found.flops > 1e8
    text = found.text()
    for part in (
        "model        ssd, ssd_mobilenet_v2_fpn_keras (mobilenet_v2, fpn)",
        "256 x 256 x 3 from fixed_shape_resizer",
        "32 x 32 x 6",
        "1,500 steps of 16 images, momentum_optimizer, cosine_decay_learning_rate",
        "random_horizontal_flip, random_crop_image",
        "8-bit weights, 8-bit activations, from step 200",
    ):
        assert part in text
    # Classes that are left to the label map.
    classes = ({"model.ssd.num_classes": given} for given in (1, "unset"))
    one, left = (describe(apply_overrides(load_pipeline_config(PYRAMID), given)) for given in classes)
    assert (one.classes, left.classes, left.parameters) == (1, None, one.parameters)
    assert "classes      those of the label map; what follows is for one\n" in left.text()


# Twice the multiply-adds that the papers' tables of layers and the configurations' heads give by hand.
@cases(
    ("ssd_mobilenet_v2_320x320", 1.545558112),
    ("ssd_mobilenet_v2_fpnlite_320x320", 1.970068992),
    ("ssd_resnet50_v1_fpn_640x640", 178.317952),
)
def test_the_zoo_s_networks_are_described_as_they_are(*, name, gflops):
    found, facts = describe(zoo_config(name)), zoo_facts(name)
    assert found.input_shape.size == facts.input_size
    assert (found.parameters, found.trainable_parameters) == (facts.parameters, facts.trained)
    assert found.model.data["anchors"] == facts.anchors
    assert tuple((level["rows"], level["columns"]) for level in found.model.data["levels"]) == facts.levels
    assert found.flops / 1e9 == pytest.approx(gflops, rel=1e-9)


def _starting_from(path: str, **fields: str) -> TrainEvalPipelineConfig:
    changes = {f"train_config.fine_tune_checkpoint{name}": value for name, value in fields.items()}
    changes |= {"train_config.fine_tune_checkpoint": path, "train_config.num_steps": "unset"}
    return apply_overrides(load_pipeline_config(PYRAMID), changes)


def test_first_weights_missing_steps_and_what_training_computes_in_are_told(tmp_path, caplog):
    parts = _parts(_starting_from(f"{tmp_path}/model.ckpt"))
    assert parts["start"].startswith(f"{tmp_path}/model.ckpt, taken as a classification checkpoint of Tens")
    assert "cannot be seen here: expected a checkpoint" in parts["start"]
    assert parts["training"].startswith("no num_steps, which training needs; 16 images")
    config = load_pipeline_config(PYRAMID)
    assert "precision" not in _parts(apply_overrides(config, {"precision": "FLOAT32"}))
    parts = _parts(apply_overrides(config, {"precision": "FLOAT16"}))
    assert parts["precision"] == "float16, chosen by train_config.precision; weights and losses are float32"
    assert [message for message in caplog.messages if "FLOAT16 is slow here" in message]


def test_a_checkpoint_is_told_by_its_files(tmp_path):
    kinds = (
        (write_object_checkpoint, OBJECTS, {"_version": "V2", "_type": "full"}, "detector's checkpoint with"),
        (write_object_checkpoint, OBJECTS[:1], {"_version": "V2", "_type": "detection"}, "without heads"),
        (write_object_checkpoint, [BACKBONE], {"_version": "V2"}, "a classifier's checkpoint (object-based"),
        (write_object_checkpoint, ["other/kernel"], {"_version": "V2"}, "of something else (object-based"),
        (write_named_checkpoint, CLASSIFIER, {}, "a classifier's checkpoint (name-based"),
    )
    with s3_server() as bucket:  # of which the index alone is fetched
        for number, (write, names, fields, found) in enumerate(kinds):
            prefix = write({name: np.zeros(1, np.float32) for name in names}, tmp_path / f"ckpt-{number}")
            assert found in _parts(_starting_from(prefix, **fields))["start"]
            files.copy_file(f"{prefix}.index", f"{bucket}/ckpt-{number}.index")
            files.write_text(f"{bucket}/ckpt-{number}.data-00000-of-00001", "")
            assert found in _parts(_starting_from(f"{bucket}/ckpt-{number}", **fields))["start"]


@cases(
    (write_object_checkpoint, OBJECTS, {}, "expected V2, as .* is object-based, found V1"),
    (write_named_checkpoint, ["x/weights"], {"_version": "V2"}, "expected V1, as .* is name-based"),
    (write_object_checkpoint, OBJECTS, {"_version": "V2"}, "expected detection or full, .*found classif"),
    (write_named_checkpoint, CLASSIFIER, {"_type": "detection"}, "expected class.* classifier's .*found det"),
)
def test_a_checkpoint_that_is_not_what_the_config_says_is_refused(tmp_path, *, write, names, fields, message):
    prefix = write({name: np.zeros(1, np.float32) for name in names}, tmp_path / "ckpt")
    with pytest.raises(ConfigError, match=f"train_config.fine_tune_checkpoint_(version|type): {message}"):
        _parts(_starting_from(prefix, **fields))


def test_what_cannot_be_built_and_labels_that_do_not_fit_are_found_before_there_are_data():
    flip = {"train_config.data_augmentation_options[+]": "random_horizontal_flip {}"}
    for changes, place in (
        ({"train_config.use_multiclass_scores": True}, "train_config.use_multiclass_scores"),
        ({"train_input_reader.num_keypoints": 2}, "keypoint_flip_permutation"),
        ({"train_input_reader.keypoint_type_weight": [1.0]}, "train_input_reader.keypoint_type_weight"),
    ):
        config = apply_overrides(load_pipeline_config(PYRAMID), changes | flip)
        refused(ConfigError, place, check_pipeline_config, config)
    other = parse_pipeline_config('model { experimental_model { name: "x" } }')
    refused(ConfigError, "found x", check_detector, other)
