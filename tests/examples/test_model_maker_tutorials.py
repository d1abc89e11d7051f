"""Each cell of the public tutorial of TFLite Model Maker for object detection, on drawn images.

Two cells are other tools' and left out: pip, and the compiler for Edge TPUs. MediaPipe's guide is in
tests/pipeline/api/detflow/object_detector/test_mediapipe_detector.py.
"""

import logging
import re

import absl.logging
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from detflow import model_spec, object_detector
from detflow.config import ExportFormat, QuantizationConfig
from tests.support.scenes import CLASSES, TINY, draw, write_csv, write_voc

SETS = ("TRAINING", "TRAINING", "TRAINING", "VALIDATION", "TEST")
KEYS = {"AP", "AP50", "AP75", "APs", "APm", "APl", "ARmax1", "ARmax10", "ARmax100", "ARs", "ARm", "ARl"}
KEYS |= {f"AP_/{name}" for name in CLASSES}


@pytest.fixture
def quiet():
    """Logging as the tutorial's first cell sets it."""
    ours = [logging.getLogger(name) for name in ("detection_core", "detection_core.progress", "detflow")]
    before = {logger: logger.level for logger in (tf.get_logger(), *ours)}
    verbosity = absl.logging.get_verbosity()
    tf.get_logger().setLevel("ERROR")
    absl.logging.set_verbosity(absl.logging.ERROR)
    for logger in ours:
        logger.setLevel(logging.NOTSET)
    yield
    absl.logging.set_verbosity(verbosity)
    for logger, level in before.items():
        logger.setLevel(level)


def detected(path, image_path):
    """What the tutorial's `detect_objects` reads of a file: count, scores, classes, boxes."""
    interpreter = tf.lite.Interpreter(model_path=path)
    interpreter.allocate_tensors()
    _, height, width, _ = interpreter.get_input_details()[0]["shape"]
    image = tf.io.decode_image(tf.io.read_file(image_path), channels=3)
    resized = tf.cast(tf.image.resize(image, (height, width))[tf.newaxis, :], tf.uint8)
    output = interpreter.get_signature_runner()(images=resized)
    return tuple(np.squeeze(output[f"output_{place}"]) for place in range(4))


@pytest.mark.zoo  # trains, exports and measures a small network
@pytest.mark.usefixtures("quiet")
def test_the_salads_tutorial(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scenes = draw(tmp_path / "images", 15)
    path = write_csv(tmp_path / "salads_ml_use.csv", scenes, prefix=f"{tmp_path}/images/", sets=SETS)

    def printed():
        return capsys.readouterr().out

    spec = model_spec.get("efficientdet_lite0", hparams=TINY, epochs=1)
    train_data, validation_data, test_data = object_detector.DataLoader.from_csv(str(path))
    assert [len(train_data), len(validation_data), len(test_data)] == [9, 3, 3]
    printed()
    model = object_detector.create(
        train_data, model_spec=spec, batch_size=8, train_whole_model=True, validation_data=validation_data
    )
    assert re.search(r"train \| step 1/1\b.*loss", printed())
    assert set(model.evaluate(test_data)) == KEYS and "evaluate | image 3/3" in printed()
    model.export(export_dir=".")
    assert "export | model_int8.tflite" in printed()
    assert set(model.evaluate_tflite("model.tflite", test_data)) == KEYS
    assert "evaluate | image 3/3" in printed()
    # Test the TFLite model on your image.
    classes = ["???"] * model.model_spec.config.num_classes
    for label_id, label_name in model.model_spec.config.label_map.as_dict().items():
        classes[label_id - 1] = label_name
    assert classes == list(CLASSES)
    Image.open("images/0.jpg").save("image.png")
    count, scores, found, boxes = detected("model.tflite", "image.png")
    assert 0 <= int(count) <= 25 and scores.shape == found.shape == (25,) and boxes.shape == (25, 4)
    assert all(classes[int(label)] in CLASSES for label in found[: int(count)])
    # Export to different formats, and customize the quantization.
    model.export(export_dir=".", export_format=[ExportFormat.SAVED_MODEL, ExportFormat.LABEL])
    assert (tmp_path / "saved_model" / "saved_model.pb").is_file()
    assert (tmp_path / "labels.txt").read_text() == "".join(f"{name}\n" for name in CLASSES)
    config = QuantizationConfig.for_float16()
    model.export(export_dir=".", tflite_filename="model_fp16.tflite", quantization_config=config)
    assert (tmp_path / "model_fp16.tflite").is_file()


def test_the_salads_tutorial_s_hyper_parameters(tmp_path):
    """The cells of its advanced usage that train nothing: other data, frozen variables, another network."""
    annotations = write_voc(tmp_path / "annotations", draw(tmp_path / "images", 4))
    label_map = {1: "circle", 2: "square"}
    data = object_detector.DataLoader.from_pascal_voc(tmp_path / "images", annotations, label_map=label_map)
    assert data.label_map == label_map and len(data) == 4
    spec = model_spec.get("efficientdet_lite0")
    spec.config.var_freeze_expr = "efficientnet"
    assert spec.config.as_dict()["var_freeze_expr"] == "efficientnet"
    spec = model_spec.get("efficientdet_lite4")
    detector = object_detector.ObjectDetector(spec, {3: "star"})
    assert spec.config.label_map.as_dict() == {3: "star"} and spec.config.num_classes == 3
    object_detector.ObjectDetector(spec, data.label_map)
    assert detector.model_spec.config.label_map == label_map and spec.config.num_classes == 2
