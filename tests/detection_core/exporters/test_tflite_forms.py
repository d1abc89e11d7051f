"""A file gives every class with any number of threads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.tflite_decoding import BoxDecoding
from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.detectors.ssd.tflite import tflite_function
from detection_core.evaluation.tflite_heads import suppressed_heads
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.exporters.tflite import Conversion
from detection_core.exporters.tflite_description import add_description
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_forms import CLASSES_OF_THREADS, suppression_function
from detection_core.exporters.tflite_post_process import centred, post_process_function
from detection_core.structures import Images
from tests.detection_core.exporters.test_tflite import OPTIONS as TINY
from tests.detection_core.exporters.test_tflite import PIXELS, quantized
from tests.detection_core.exporters.test_tflite_plain_suppression import OPTIONS, ROWS, detections, file_of
from tests.support.tflite_operations import list_operations
from tests.support.tiny_detector import SCALES, TinyDetector, grid_anchors
from tests.support.tiny_network import CLASSES


def test_the_smallest_case_has_three_classes_and_two_threads():
    options = dataclasses.replace(OPTIONS, num_classes=3)
    anchors = np.array([[0, 0, 1, 1], [2, 2, 1, 1], [4, 4, 1, 1]], np.float32)
    values = np.pad(np.eye(3, dtype=np.float32), [[0, 0], [1, 0]])[np.newaxis]
    for post_process, found in ((post_process_function, {0, 1}), (suppression_function, {0, 1, 2})):
        content = file_of(post_process(options), options, anchors, np.zeros_like(anchors))
        assert set(detections(content, values)["classes"]) == {0, 1, 2}
        assert set(detections(content, values, threads=2)["classes"]) == found


def test_built_in_operations_stand_in_where_the_kernel_gives_something_else():
    changes = {
        "across classes": ({"use_regular_nms": False}, True),
        "two classes": ({"num_classes": CLASSES_OF_THREADS}, True),
        "three classes": ({"num_classes": CLASSES_OF_THREADS + 1}, False),
        "few of a class": ({"num_classes": 1, "detections_per_class": 3}, False),
        "all of a class": ({"num_classes": 1, "detections_per_class": ROWS}, True),
        "many of a class": ({"num_classes": 1, "detections_per_class": 200, "max_detections": 200}, False),
    }
    for name, (changed, by_kernel) in changes.items():
        function = suppression_function(dataclasses.replace(OPTIONS, **changed))
        assert (function.__module__ == post_process_function.__module__) == by_kernel, name


HEADS = dict(zip(("float32", "int8"), (TinyDetector, quantized), strict=True))
DECODING = BoxDecoding(
    anchors=centred(tf.constant(grid_anchors())).numpy(), scales=SCALES, num_classes=3, sigmoid=True
)


def described(name: str, form: str) -> bytes:
    function = tflite_function(HEADS[name](), TINY, integer=name == "int8", form=form)
    content = FORMATS[name].convert(Conversion(function=function))
    description = TFLiteDescription(name="tiny", mean=(127.5,), std=(127.5,), labels=("a", "b", "c"))
    return add_description(content, description, DECODING if form == "headless" else None)


@pytest.mark.parametrize("name", HEADS)
def test_a_file_without_post_processing_finds_what_the_network_finds(tmp_path, name):
    path = tmp_path / "model.tflite"
    path.write_bytes(described(name, "headless"))
    image = PIXELS[0].astype(np.uint8)
    found = TFLiteRunner(str(path))(image)
    model = HEADS[name]()
    images = Images(pixels=tf.constant(PIXELS[:1]), true_sizes=None, original_sizes=None, source_ids=None)
    predictions = model.predict(images, training=False)
    logits = predictions.class_logits.numpy()[0, :, 1:]
    boxes, scores, _ = suppressed_heads(predictions.box_codes.numpy()[0], logits, DECODING)
    tolerance = 1e-4 if name == "float32" else 0.05
    np.testing.assert_allclose(found.scores[:5], scores[:5], atol=tolerance)
    if name == "float32":
        np.testing.assert_allclose(found.boxes, np.clip(boxes, 0, 1), atol=1e-4)


def test_all_of_an_integer_file_without_post_processing_runs_in_integers():
    operations = list_operations(described("int8", "headless"))
    assert [operation.name for operation in operations if "float32" in operation.inputs] == []
    assert [operation.name for operation in operations if "float32" in operation.outputs] == [
        "DEQUANTIZE"
    ] * 2


@pytest.mark.parametrize("form", ["post_process", "plain_nms"])
@pytest.mark.parametrize("background", [True, False])
def test_scores_of_an_integer_file_stay_in_float(form, background):
    """A sigmoid's range is known to the converter, which made int8 of it again: 256 scores to rank by."""
    options = TINY if background else dataclasses.replace(TINY, num_classes=CLASSES + 1)
    function = tflite_function(quantized(), options, integer=True, form=form)
    names = [op.name for op in list_operations(FORMATS["int8"].convert(Conversion(function=function)))]
    assert "LOGISTIC" in names and names.count("QUANTIZE") == 1  # of the pixels


def test_built_in_operations_find_what_the_operation_finds(tmp_path):
    found = []
    for form in ("post_process", "plain_nms"):
        path = tmp_path / f"{form}.tflite"
        path.write_bytes(described("float32", form))
        found.append(TFLiteRunner(str(path))(PIXELS[0].astype(np.uint8)))
    for field in ("boxes", "scores", "classes"):
        np.testing.assert_allclose(*(getattr(each, field) for each in found), atol=1e-5)
