"""From a config to a trained detector, its folder, SavedModel, metrics and predictions, with keypoints."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.api import evaluate, predict
from detection_core.builders.evaluation_settings import EvaluateOptions
from detection_core.config.input_paths import point_at_examples, with_keypoint_labels
from detection_core.config.load import parse_pipeline_config
from detection_core.exporters.detector_folder import load_detector
from detection_core.tasks.describe import describe
from detection_core.tasks.export import export_tflite
from detection_core.tasks.exporting.parity import TFLiteExportOptions
from detection_core.tasks.quantize import quantize
from tests.support.center_net_goldens import LABELS, small_text
from tests.support.detectors import REWRITER
from tests.support.updates import Trained, train_on_shapes

TRAINING = """
train_config {
  batch_size: 2 num_steps: 3 max_number_of_boxes: 3
  optimizer { adam_optimizer { learning_rate { constant_learning_rate { learning_rate: 0.003 } } } }
}
train_input_reader { num_keypoints: 2 }
eval_input_reader { num_keypoints: 2 }
eval_config { metrics_set: ["coco_detection_metrics", "coco_keypoint_metrics"] min_score_threshold: 0 }
"""
CONFIG = small_text(labels="PATH_TO_BE_CONFIGURED") + TRAINING


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Trained:
    found = train_on_shapes(tmp_path_factory.mktemp("center_net"), CONFIG, labels=LABELS)
    # The folder of examples may be gone when the detector is used.
    labels = Path(found.examples) / "label_map.pbtxt"
    moved = labels.rename(labels.with_name("moved.pbtxt"))
    assert load_detector(found.folder).model.parts.keypoints[0].class_index == 1
    moved.rename(labels)
    return found


@pytest.mark.slow
def test_its_losses_fall_and_are_shown_by_short_names(trained):
    names = {"center", "size", "offset", "corners/keypoint/heatmap", "corners/keypoint/offset"}
    assert names < set(trained.lines[0])
    losses = [line["loss"] for line in trained.lines]
    assert losses[0] > losses[1] > losses[2], losses


def test_its_folder_is_described_and_its_saved_model_has_keypoints(trained):
    served = tf.saved_model.load(f"{trained.folder}/Format-Serving").signatures["serving_default"]
    found = served(input_tensor=tf.zeros([1, 50, 70, 3], tf.uint8))
    shapes = {name: tuple(value.shape) for name, value in found.items()}
    assert shapes["detection_boxes"] == (1, 5, 4) and shapes["detection_keypoints"] == (1, 5, 2, 2)
    assert shapes["detection_keypoint_scores"] == (1, 5, 2)
    text = describe(parse_pipeline_config(CONFIG)).text()
    assert "center_net, hourglass_10 (hourglass)" in text and "1 of corners" in text


def test_it_is_evaluated_and_predicts(trained, tmp_path):
    report = evaluate(
        trained.folder,
        examples=trained.examples,
        output=tmp_path / "evaluation",
        options=EvaluateOptions(split="train", pictures=1),
    )
    assert report.images == 6
    for kind in ("DetectionBoxes", "Keypoints"):
        assert 0 <= report.metrics[f"{kind}_Precision/mAP"] <= 1, kind
    (found,) = predict(trained.folder, [np.full((50, 70, 3), 99, np.uint8)], min_score=0.0)
    # Which class the best peaks have after so few updates depends on the processor; one class has keypoints.
    keypoints = {"bright": 2, "dark": 0}
    assert found.detections
    assert all(len(thing.keypoints) == keypoints[thing.name] for thing in found.detections)


@pytest.mark.slow
def test_its_files_pass_the_gate(trained, tmp_path):
    report = export_tflite(
        trained.folder, trained.examples,
        TFLiteExportOptions(max_map_drop=0.02, formats=("float32", "float16"), split="train", latency_runs=0),
        tflite_dir=str(tmp_path / "tflite"), parity_dir=str(tmp_path / "parity"),
    )  # fmt: skip
    assert report.blessed, report.reasons
    heads = {name for file in report.files for name in file.network.heads}
    assert "head_object_center_0_output" in heads
    assert not any(file.network.unmatched for file in report.files)


@pytest.mark.slow
def test_it_is_quantized_with_a_label_map_of_another_path(trained, tmp_path):
    config = parse_pipeline_config(CONFIG + REWRITER)
    folders = {name: str(tmp_path / name) for name in ("quantized_run_dir", "quantization_dir", "work_dir")}
    report = quantize(
        point_at_examples(config, trained.examples),
        model_dir=trained.folder,
        quantized_model_dir=str(tmp_path / "model"),
        **folders,
    )
    assert (report.quantized_steps, report.not_quantized) == (2, [])
    assert load_detector(str(tmp_path / "model")).model.num_keypoints == 2


def test_the_label_map_of_examples_fills_in_an_unset_path_only():
    config = parse_pipeline_config(CONFIG)
    assert _path(with_keypoint_labels(config, "/a", unset_only=True)) == "/a"
    given = with_keypoint_labels(config, "/own")
    assert _path(with_keypoint_labels(given, "/a", unset_only=True)) == "/own"
    assert _path(with_keypoint_labels(given, "/a")) == "/a" and _path(config) == "PATH_TO_BE_CONFIGURED"
    other = parse_pipeline_config("model { ssd {} }")
    assert with_keypoint_labels(other, "/a") is other


def _path(config):
    return config.model.center_net.keypoint_label_map_path
