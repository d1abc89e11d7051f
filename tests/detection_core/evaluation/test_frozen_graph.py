"""Frozen graphs as TensorFlow 1 exported them are run as the SavedModels of the same detectors."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.evaluation.measure import known_classes
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.signature_runner import detect_batch
from detection_core.exporters.frozen_graph import frozen_graph
from tests.support.blobs import BlobDetector, ShapeDetector, save, scenes, writing_detector
from tests.support.cases import refused


def _freeze(path, detector, name="image_tensor"):
    path.write_bytes(frozen_graph(detector.serve.get_concrete_function(), name))
    return str(path)


@pytest.mark.parametrize("kind", [BlobDetector, ShapeDetector])
def test_a_frozen_graph_finds_what_the_saved_model_finds(kind, tmp_path):
    detector = kind()
    frozen = load_runner(_freeze(tmp_path / "frozen_inference_graph.pb", detector))
    saved = load_runner(save(detector, tmp_path / "saved"))
    assert not frozen.takes_batches and known_classes(frozen.path) == {}
    for image, truth in scenes(4):
        found, expected = (runner(image, truth.source_id) for runner in (frozen, saved))
        for name in ("boxes", "scores", "classes", "keypoints", "masks"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


def test_loops_of_tensorflow_1_run_and_a_graph_of_batches_gets_batches(tmp_path):
    """The Object Detection API's preprocessor resized the images of a batch in a loop of this kind."""
    with tf.Graph().as_default() as graph:
        tf.compat.v1.disable_control_flow_v2()
        try:
            images = tf.compat.v1.placeholder(tf.uint8, [None, None, None, 3], name="image_tensor")
            brightest = tf.map_fn(tf.reduce_max, images)
        finally:
            tf.compat.v1.enable_control_flow_v2()
        scores = tf.cast(brightest, tf.float32)[:, tf.newaxis] / 255.0
        ones = tf.ones_like(scores)
        tf.identity(ones[..., tf.newaxis] * [0.0, 0.0, 1.0, 1.0], name="detection_boxes")
        tf.identity(scores, name="detection_scores")
        tf.identity(ones, name="detection_classes")
        tf.identity(ones[:, 0], name="num_detections")
    definition = graph.as_graph_def()
    assert {"Enter", "TensorArrayV3"} <= {node.op for node in definition.node}
    (tmp_path / "old.pb").write_bytes(definition.SerializeToString())
    runner = load_runner(str(tmp_path / "old.pb"))
    images = [np.full((4, 5, 3), value, np.uint8) for value in (51, 255)]
    found = detect_batch(runner, images, ["a", "b"])
    assert runner.takes_batches and [image.scores.tolist() for image in found] == [
        pytest.approx([0.2]),
        pytest.approx([1.0]),
    ]


def test_what_is_no_detector_is_one_message(tmp_path):
    other = _freeze(tmp_path / "encoded.pb", BlobDetector(), name="encoded_image_string_tensor")
    refused(
        ModelError, "found none named image_tensor; export the model with the input type", load_runner, other
    )
    (tmp_path / "text.pb").write_text("node")
    refused(
        ModelError,
        "expected a frozen graph, found a file that is damaged",
        load_runner,
        str(tmp_path / "text.pb"),
    )
    target = tmp_path / "written"
    writing = _freeze(tmp_path / "writing.pb", writing_detector(target))
    refused(ModelError, "only computes, found WriteFile in it", load_runner, writing)
    load_runner(writing, trust=True)
    assert not target.exists()
    with tf.Graph().as_default() as graph:
        for name in (
            "image_tensor",
            "detection_boxes",
            "detection_scores",
            "detection_classes",
            "num_detections",
        ):
            tf.compat.v1.placeholder(tf.float32, name=name)
    definition = graph.as_graph_def()
    definition.node[1].op, definition.node[1].input[:] = "Relu", ["missing"]
    (tmp_path / "cut.pb").write_bytes(definition.SerializeToString())
    refused(ModelError, "found one that cannot be loaded", load_runner, str(tmp_path / "cut.pb"))
