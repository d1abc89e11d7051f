"""A small EfficientDet, trained, measured and exported by Model Maker's calls."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import detection_core
from detection_core import ConfigError, DataError
from detection_core.artifacts.tflite_graph import read_graph
from detection_core.detectors.efficientdet.checkpoint_names import automl_variables
from detection_core.exporters.detector_folder import load_detector
from detflow import model_spec, object_detector
from detflow.config import ExportFormat, QuantizationConfig
from tests.support.field_checkpoints import write_named_checkpoint
from tests.support.scenes import CLASSES, TINY, draw, write_csv

pytestmark = pytest.mark.slow
NUMBERS = {
    "AP", "AP50", "AP75", "APs", "APm", "APl",
    "ARmax1", "ARmax10", "ARmax100", "ARs", "ARm", "ARl",
    "AP_/circle", "AP_/square",
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    scenes = draw(folder / "images", 16)
    path = write_csv(folder / "boxes.csv", scenes, sets=("TRAIN", "TRAIN", "TRAIN", "TEST"))
    train, _, test = object_detector.DataLoader.from_csv(path, images_dir=folder / "images")
    return train, test


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    spec = model_spec.get("efficientdet_lite0", hparams=TINY, model_dir=folder, tflite_max_detections=7)
    return object_detector.create(data[0], spec, epochs=1, batch_size=4, train_whole_model=True)


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    trained.export(
        folder,
        export_format=[ExportFormat.TFLITE, ExportFormat.SAVED_MODEL, ExportFormat.LABEL],
        quantization_config=QuantizationConfig.for_int8(trained.representative_data, quantization_steps=8),
    )
    return folder


def test_a_detector_is_measured(trained, data):
    found = trained.evaluate(data[1], batch_size=2)
    assert set(found) == NUMBERS
    assert all(value == -1 or 0 <= value <= 1 for value in found.values())
    assert found["APs"] == -1  # no object of the scenes is small


def test_the_numbers_are_the_library_s(trained, data):
    config = detection_core.load_config(
        f"{trained.detector_dir}/Format-Serving/assets.extra/detflow/pipeline.config",
        {"eval_input_reader[0].tf_record_input_reader.input_path": [data[1].tfrecord_file_patten]},
    )
    report = detection_core.evaluate(trained.detector_dir, config=config)
    found = trained.evaluate(data[1])
    assert found["AP"] == report.metrics["DetectionBoxes_Precision/mAP"]
    assert found["ARmax1"] == report.metrics["DetectionBoxes_Recall/AR@1"]


def test_the_files(exported):
    assert {path.name for path in exported.iterdir()} == {"model.tflite", "saved_model", "labels.txt"}
    assert (exported / "labels.txt").read_text() == "circle\nsquare\n"
    assert (exported / "saved_model" / "saved_model.pb").is_file()
    found = Interpreter(str(exported / "model.tflite"))
    (taken,) = found.get_input_details()
    assert taken["dtype"] == np.uint8 and list(taken["shape"]) == [1, 64, 64, 3]
    found.allocate_tensors()
    assert sorted(tuple(out["shape"]) for out in found.get_output_details()) == [
        (1,), (1, 7), (1, 7), (1, 7, 4)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "kernels", "taken"),
    [
        (QuantizationConfig.for_float16(), "float16", np.float32),
        (QuantizationConfig.for_dynamic(), "int8", np.float32),
    ],
)
def test_a_file_after_each_quantization_of_model_maker(trained, tmp_path, config, kernels, taken):
    trained.export(tmp_path, quantization_config=config)
    content = (tmp_path / "model.tflite").read_bytes()
    assert Interpreter(model_content=content).get_input_details()[0]["dtype"] == taken
    stored = {tensor.dtype for tensor in read_graph(content).tensors if tensor.is_constant}
    assert kernels in stored


def test_the_file_is_measured(trained, exported, data):
    found = trained.evaluate_tflite(exported / "model.tflite", data[1])
    assert set(found) == NUMBERS


def test_the_detector_is_one_of_the_library_s(trained):
    (prediction,) = detection_core.predict(
        trained.detector_dir, [np.zeros((64, 64, 3), np.uint8)], min_score=0.0
    )
    assert {found.name for found in prediction.detections} <= set(CLASSES)


def test_a_summary(trained):
    lines: list[str] = []
    trained.summary(print_fn=lines.append)
    assert any("Total params" in line for line in lines)


def test_a_detector_starts_where_another_ended(trained, data, tmp_path):
    spec = model_spec.get(
        "efficientdet_lite0", hparams=TINY, model_dir=tmp_path, uri=trained.detector_dir, batch_size=4
    )
    untrained = object_detector.ObjectDetector.create(data[0], spec, do_train=False)
    assert untrained.evaluate(data[1]) == trained.evaluate(data[1])


def test_a_detector_starts_from_a_checkpoint_of_google_automl(trained, data, tmp_path):
    detector = load_detector(trained.detector_dir).model
    variables = automl_variables(detector.network, detector.parts.settings)
    values = {own.name: own.variable.numpy() for own in variables}
    prefix = write_named_checkpoint(values, tmp_path / "model")
    spec = model_spec.get("efficientdet_lite0", hparams=TINY, model_dir=tmp_path / "new", uri=prefix)
    started = object_detector.create(data[0], spec, do_train=False)
    assert started.model_spec.config.var_freeze_expr
    assert started.evaluate(data[1]) == trained.evaluate(data[1])


def test_other_classes_are_refused(trained, data):
    other = object_detector.DataLoader(data[1].tfrecord_file_patten, len(data[1]), ["circle", "star"])
    for call in (trained.evaluate, lambda given: trained.evaluate_tflite("x.tflite", given)):
        with pytest.raises(DataError, match="2: star") as caught:
            call(other)
        assert caught.value.where == "data"


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"export_format": ExportFormat.TFJS}, "export_format"),
        ({"export_format": ["TFLITE"]}, "export_format"),
        ({"with_metadata": False}, "with_metadata"),
        ({"export_metadata_json_file": True}, "export_metadata_json_file"),
    ],
)
def test_an_export_that_cannot_be_made(trained, tmp_path, arguments, where):
    with pytest.raises(ConfigError) as caught:
        trained.export(tmp_path, **arguments)
    assert caught.value.where == where
    assert list(tmp_path.iterdir()) == []


def test_what_comes_before_training(data, tmp_path):
    spec = model_spec.get("efficientdet_lite0", hparams=TINY, model_dir=tmp_path)
    detector = object_detector.ObjectDetector(spec, ["circle", "square"])
    with pytest.raises(ConfigError, match="call train"):
        detector.evaluate(data[1])
    with pytest.raises(ConfigError, match="12 images") as caught:
        detector.train(data[0], batch_size=64)
    assert caught.value.where == "batch_size"
    with pytest.raises(ConfigError) as refused:
        detector.train(data[0], epochs=0)
    assert refused.value.where == "epochs"
