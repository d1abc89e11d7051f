"""A small EfficientDet, trained, measured and exported by Model Maker's calls."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import detection_core
from detection_core import ConfigError, DataError
from detection_core.artifacts.tflite_file import read_graph
from detection_core.exporters.detector_folder import load_detector
from detection_core.families.efficientdet.checkpoint_names import automl_variables
from detflow import model_spec, object_detector
from detflow.config import ExportFormat, QuantizationConfig
from tests.support.cases import refused
from tests.support.field_checkpoints import write_named_checkpoint
from tests.support.refusals import refused_at
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
def measured(trained, data):
    return trained.evaluate(data[1], batch_size=2)


def test_a_detector_is_measured_and_the_numbers_are_the_library_s(trained, data, measured):
    assert set(measured) == NUMBERS and all(value == -1 or 0 <= value <= 1 for value in measured.values())
    assert measured["APs"] == -1  # no object of the scenes is small
    config = detection_core.load_config(
        f"{trained.detector_dir}/Format-Serving/assets.extra/detflow/pipeline.config",
        {"eval_input_reader[0].tf_record_input_reader.input_path": [data[1].tfrecord_file_patten]},
    )
    report = detection_core.evaluate(trained.detector_dir, config=config)
    assert measured["AP"] == report.metrics["DetectionBoxes_Precision/mAP"]
    assert measured["ARmax1"] == report.metrics["DetectionBoxes_Recall/AR@1"]


def test_the_files_and_what_they_measure(trained, data, tmp_path):
    exported = tmp_path / "exported"
    trained.export(
        exported,
        export_format=[ExportFormat.TFLITE, ExportFormat.SAVED_MODEL, ExportFormat.LABEL],
        quantization_config=QuantizationConfig.for_int8(trained.representative_data, quantization_steps=2),
    )
    assert {path.name for path in exported.iterdir()} == {"model.tflite", "saved_model", "labels.txt"}
    assert (exported / "labels.txt").read_text() == "circle\nsquare\n"
    assert (exported / "saved_model" / "saved_model.pb").is_file()
    found = Interpreter(str(exported / "model.tflite"))
    (taken,) = found.get_input_details()
    assert taken["dtype"] == np.uint8 and list(taken["shape"]) == [1, 64, 64, 3]
    found.allocate_tensors()
    shapes = sorted(tuple(out["shape"]) for out in found.get_output_details())
    assert shapes == [(1,), (1, 7), (1, 7), (1, 7, 4)]
    assert set(trained.evaluate_tflite(exported / "model.tflite", data[1])) == NUMBERS
    trained.export(tmp_path, quantization_config=QuantizationConfig.for_float16())
    content = (tmp_path / "model.tflite").read_bytes()
    assert Interpreter(model_content=content).get_input_details()[0]["dtype"] == np.float32
    assert "float16" in {tensor.dtype for tensor in read_graph(content).tensors if tensor.is_constant}


def test_the_detector_is_one_of_the_library_s_and_other_classes_are_refused(trained, data):
    images = [np.zeros((64, 64, 3), np.uint8)]
    (prediction,) = detection_core.predict(trained.detector_dir, images, min_score=0.0)
    assert {found.name for found in prediction.detections} <= set(CLASSES)
    lines: list[str] = []
    trained.summary(print_fn=lines.append)
    assert any("Total params" in line for line in lines)
    other = object_detector.DataLoader(data[1].tfrecord_file_patten, len(data[1]), ["circle", "star"])
    for call in (trained.evaluate, lambda given: trained.evaluate_tflite("x.tflite", given)):
        with refused_at("data", "2: star", DataError):
            call(other)


def test_a_detector_starts_where_another_ended_or_from_automl_s_checkpoint(trained, data, measured, tmp_path):
    detector = load_detector(trained.detector_dir).model
    variables = automl_variables(detector.network, detector.parts.settings)
    values = {own.name: own.variable.numpy() for own in variables}
    for uri in (trained.detector_dir, write_named_checkpoint(values, tmp_path / "model")):
        spec = model_spec.get("efficientdet_lite0", hparams=TINY, model_dir=tmp_path / "new", uri=uri)
        started = object_detector.ObjectDetector.create(data[0], spec, batch_size=4, do_train=False)
        assert started.evaluate(data[1]) == measured
    assert started.model_spec.config.var_freeze_expr


def test_an_export_or_a_training_that_cannot_be_made(trained, tmp_path, data):
    for arguments in (
        {"export_format": ExportFormat.TFJS},
        {"export_format": ["TFLITE"]},
        {"with_metadata": False},
        {"export_metadata_json_file": True},
    ):
        with refused_at(next(iter(arguments))):
            trained.export(tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []
    spec = model_spec.get("efficientdet_lite0", hparams=TINY, model_dir=tmp_path)
    detector = object_detector.ObjectDetector(spec, ["circle", "square"])
    refused(ConfigError, "call train", detector.evaluate, data[1])
    with refused_at("batch_size", "12 images"):
        detector.train(data[0], batch_size=64)
    with refused_at("epochs"):
        detector.train(data[0], epochs=0)
