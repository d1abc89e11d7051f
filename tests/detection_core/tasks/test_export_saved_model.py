"""A detector folder as the Object Detection API or google/automl lays it out."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.detector import EXTRA
from detection_core.builders.detector import build_detector
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.errors import ConfigError, ExportError
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.detector_folder import write_detector
from detection_core.exporters.frozen_graph import FROZEN_GRAPH
from detection_core.exporters.served_inputs import INPUT_TYPES
from detection_core.exporters.warm_up import WARM_UP_FILE
from detection_core.tasks.export_saved_model import SavedModelOptions, export_saved_model
from tests.detection_core.exporters.test_detector_folder import CONFIG, LABELS
from tests.detection_core.exporters.test_warm_up import read_logs
from tests.support import efficientdet_goldens as goldens
from tests.support.made_examples import Made, write_examples

IMAGE = np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8)


def written_detector(config, folder) -> str:
    write_detector(build_detector(config.model, seed=0), config, LABELS, str(folder))
    return str(folder)


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    return written_detector(CONFIG, tmp_path_factory.mktemp("ssd"))


@pytest.fixture(scope="module")
def efficientdet(tmp_path_factory):
    config = PipelineConfig()
    message = goldens.message("efficientdet-lite0", 64, fpn_cell_repeats=1, box_class_repeats=1)
    message.num_classes = 2
    config.model.efficientdet.CopyFrom(message)
    return written_detector(config, tmp_path_factory.mktemp("efficientdet"))


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    write_examples(
        folder, {"eval": [Made(boxes=((0.1, 0.1, 0.5, 0.4),), classes=("dog",)) for _ in range(4)]}
    )
    return str(folder)


def test_the_layout_is_the_exporter_s_and_the_model_is_still_a_detector(detector, examples, tmp_path):
    options = SavedModelOptions(frozen_graph=True, warm_up_requests=3)
    written = export_saved_model(detector, str(tmp_path / "out"), options, examples_dir=examples)
    assert sorted(os.listdir(tmp_path / "out")) == [
        "checkpoint",
        FROZEN_GRAPH,
        "label_map.pbtxt",
        "pipeline.config",
        "saved_model",
    ]
    assert written == str(tmp_path / "out" / "saved_model")
    requests = list(tf.data.TFRecordDataset(f"{written}/{WARM_UP_FILE}"))
    assert len(requests) == 3 and os.path.isfile(f"{written}/{EXTRA}/model.json")
    found, expected = (load_runner(path)(IMAGE) for path in (written, detector))
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)


@pytest.mark.parametrize("family", ["detector", "efficientdet"])
def test_google_automl_s_signatures_of_every_family(family, request, tmp_path):
    options = SavedModelOptions(signatures="automl", batch_size=1)
    written = export_saved_model(request.getfixturevalue(family), str(tmp_path), options)
    signatures = tf.saved_model.load(written).signatures
    assert sorted(signatures) == ["predict", "serving_base64", "serving_default"]
    assert signatures["serving_default"].structured_input_signature[1]["images"].shape.as_list()[0] == 1


@pytest.mark.parametrize("family", ["detector", "efficientdet"])
@pytest.mark.parametrize(
    ("input_type", "batch_size"), [*((name, 0) for name in INPUT_TYPES), ("tf_example", 2)]
)
def test_the_served_model_answers_every_request_of_its_warm_up(
    family, input_type, batch_size, request, examples, tmp_path
):
    """As TensorFlow Serving replays them; a model whose requests fail is not served there."""
    options = SavedModelOptions(input_type=input_type, batch_size=batch_size)
    written = export_saved_model(
        request.getfixturevalue(family), str(tmp_path), options, examples_dir=examples
    )
    loaded = tf.saved_model.load(written)
    logs = read_logs(written)
    assert len(logs) == 4
    for log in logs:
        asked = log.predict_log.request
        signature = loaded.signatures[asked.model_spec.signature_name]
        specs = signature.structured_input_signature[1]
        assert set(asked.inputs) == set(specs) == {"input_tensor"}
        inputs = {
            name: tf.io.parse_tensor(v.SerializeToString(), specs[name].dtype)
            for name, v in asked.inputs.items()
        }
        assert all(specs[name].shape.is_compatible_with(value.shape) for name, value in inputs.items())
        answer = signature(**inputs)
        assert answer["detection_boxes"].shape[0] == (batch_size or 1)
        assert all(np.isfinite(value).all() for value in answer.values())
        assert (answer["num_detections"].numpy() > 0).all()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"side_input_names": ("features",)}, ExportError, "side_input_names: expected no side inputs"),
        ({"input_type": "bogus"}, ExportError, "input_type: expected image_tensor"),
        ({"signatures": "theirs"}, ConfigError, "signatures: expected object_detection_api or automl"),
        ({"batch_size": -1}, ConfigError, "expected a batch size of at least 0"),
        ({"warm_up_requests": 1001}, ConfigError, "1 to 1000 requests"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_anything_is_read(changes, error, message):
    with pytest.raises(error, match=message):
        SavedModelOptions(**changes)


def test_an_export_that_fails_leaves_no_half_of_a_model(detector, tmp_path):
    options = SavedModelOptions(additional_output_tensor_names=("nothing",))
    with pytest.raises(ExportError, match="the nearest are"):
        export_saved_model(detector, str(tmp_path / "out"), options)
    assert not (tmp_path / "out").exists()


def test_portable_signatures_take_pixels_and_find_what_the_detector_finds(efficientdet, tmp_path):
    options = SavedModelOptions(signatures="portable", frozen_graph=True)
    written = export_saved_model(efficientdet, str(tmp_path / "out"), options)
    served = tf.saved_model.load(written).signatures["serving_default"]
    square = np.random.default_rng(1).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    found = served(images=tf.constant(square[np.newaxis].astype(np.float32)))
    expected = load_runner(efficientdet)(square)
    # The others' scores fall by soft suppression there, and here boxes go.
    np.testing.assert_allclose(found["detection_scores"][0, 0], expected.scores[0], atol=1e-5)
    np.testing.assert_allclose(np.clip(found["detection_boxes"][0, 0], 0, 1), expected.boxes[0], atol=1e-3)
    assert found["detection_classes"][0, 0] == expected.classes[0] + 1
    definition = tf.compat.v1.GraphDef.FromString((tmp_path / "out" / FROZEN_GRAPH).read_bytes())
    assert {"images", "detection_boxes", "num_detections"} <= {node.name for node in definition.node}


def test_portable_signatures_refuse_what_they_do_not_take(efficientdet, examples, tmp_path):
    options = SavedModelOptions(signatures="portable_heads")
    with pytest.raises(ConfigError, match="for converters and not for TensorFlow Serving"):
        export_saved_model(efficientdet, str(tmp_path / "out"), options, examples_dir=examples)
    others = SavedModelOptions(signatures="portable_heads", batch_size=2)
    with pytest.raises(ConfigError, match="pixels of one image"):
        export_saved_model(efficientdet, str(tmp_path / "out"), others)
