"""A detector folder as the Object Detection API or google/automl lays it out."""

import os

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.detector import EXTRA
from detection_core.errors import ConfigError, ExportError
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.frozen_graph import FROZEN_GRAPH
from detection_core.exporters.warm_up import WARM_UP_FILE
from detection_core.tasks.export_saved_model import SavedModelOptions, export_saved_model
from tests.support.cases import refused
from tests.support.detectors import examples, trained
from tests.support.served_requests import read_logs

pytestmark = pytest.mark.slow

IMAGE = np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8)


def exported(family: str, folder, *, warm_up: bool = True, **options) -> str:
    """Export a trained detector; with examples it gets requests to warm up with."""
    given = SavedModelOptions(**options)
    examples_dir = str(examples()) if warm_up else ""
    return export_saved_model(str(trained(family) / "model"), str(folder), given, examples_dir=examples_dir)


def test_the_layout_is_the_exporter_s_and_the_model_is_still_a_detector(tmp_path):
    written = exported("plain", tmp_path / "out", frozen_graph=True, warm_up_requests=3)
    names = {"checkpoint", FROZEN_GRAPH, "label_map.pbtxt", "pipeline.config", "saved_model"}
    assert set(os.listdir(tmp_path / "out")) == names
    assert set(os.listdir(tmp_path / "out" / "checkpoint")) >= {"ckpt-0.index", "ckpt-0.data-00000-of-00001"}
    assert written == str(tmp_path / "out" / "saved_model")
    requests = list(tf.data.TFRecordDataset(f"{written}/{WARM_UP_FILE}"))
    assert len(requests) == 3 and os.path.isfile(f"{written}/{EXTRA}/model.json")
    found, expected = (load_runner(path)(IMAGE) for path in (written, str(trained("plain") / "model")))
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    assert_answers_its_requests(written, batch_size=0, requests=3)


def test_google_automl_s_signatures_of_its_own_family(tmp_path):
    written = exported("efficientdet", tmp_path, warm_up=False, signatures="automl", batch_size=1)
    signatures = tf.saved_model.load(written).signatures
    assert sorted(signatures) == ["predict", "serving_base64", "serving_default"]
    assert signatures["serving_default"].structured_input_signature[1]["images"].shape.as_list()[0] == 1


def test_the_served_model_answers_every_request_of_its_warm_up(tmp_path):
    """As TensorFlow Serving replays them; a model whose requests fail is not served there."""
    written = exported("plain", tmp_path, input_type="tf_example", batch_size=2)
    assert_answers_its_requests(written, batch_size=2, requests=6)


def assert_answers_its_requests(written: str, batch_size: int, requests: int) -> None:
    loaded = tf.saved_model.load(written)
    logs = read_logs(written)
    assert len(logs) == requests
    for log in logs[:3]:
        asked = log.predict_log.request
        signature = loaded.signatures[asked.model_spec.signature_name]
        specs = signature.structured_input_signature[1]
        assert set(asked.inputs) == set(specs) == {"input_tensor"}
        given = {name: value.SerializeToString() for name, value in asked.inputs.items()}
        inputs = {name: tf.io.parse_tensor(text, specs[name].dtype) for name, text in given.items()}
        assert all(specs[name].shape.is_compatible_with(value.shape) for name, value in inputs.items())
        answer = signature(**inputs)
        assert answer["detection_boxes"].shape[0] == (batch_size or 1)
        assert all(np.isfinite(value).all() for value in answer.values())
        assert (answer["num_detections"].numpy() > 0).all()


def test_what_cannot_be_exported_is_refused_and_leaves_no_half_of_a_model(tmp_path):
    for changes, error, message in (
        ({"side_input_names": ("features",)}, ExportError, "side_input_names: expected no side inputs"),
        ({"input_type": "bogus"}, ExportError, "input_type: expected image_tensor"),
        ({"signatures": "theirs"}, ConfigError, "signatures: expected object_detection_api or automl"),
        ({"batch_size": -1}, ConfigError, "expected a batch size of at least 0"),
        ({"warm_up_requests": 1001}, ConfigError, "1 to 1000 requests"),
    ):
        refused(error, message, SavedModelOptions, **changes)
    with pytest.raises(ExportError, match="the nearest are"):
        exported("plain", tmp_path / "out", warm_up=False, additional_output_tensor_names=("nothing",))
    for batch_size, message in ((0, "for converters and not for TensorFlow Serving"), (2, "pixels of one")):
        options = {"signatures": "portable_heads", "batch_size": batch_size}
        refused(ConfigError, message, exported, "plain", tmp_path / "out", warm_up=not batch_size, **options)
    assert not (tmp_path / "out").exists()


def test_portable_signatures_take_pixels_and_find_what_the_detector_finds(tmp_path):
    options = {"signatures": "portable", "frozen_graph": True}
    written = exported("efficientdet", tmp_path / "out", warm_up=False, **options)
    served = tf.saved_model.load(written).signatures["serving_default"]
    square = np.random.default_rng(1).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    found = served(images=tf.constant(square[np.newaxis].astype(np.float32)))
    expected = load_runner(str(trained("efficientdet") / "model"))(square)
    # The others' scores fall by soft suppression there, and here boxes go.
    np.testing.assert_allclose(found["detection_scores"][0, 0], expected.scores[0], atol=1e-5)
    np.testing.assert_allclose(np.clip(found["detection_boxes"][0, 0], 0, 1), expected.boxes[0], atol=1e-3)
    assert found["detection_classes"][0, 0] == expected.classes[0] + 1
    definition = tf.compat.v1.GraphDef.FromString((tmp_path / "out" / FROZEN_GRAPH).read_bytes())
    assert {"images", "detection_boxes", "num_detections"} <= {node.name for node in definition.node}
