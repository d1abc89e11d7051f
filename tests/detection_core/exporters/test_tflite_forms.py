import dataclasses

import numpy as np
import tensorflow as tf

from detection_core.detectors.ssd.tflite import tflite_function
from detection_core.evaluation.tflite_heads import suppressed_heads
from detection_core.evaluation.tflite_runner import TFLiteRunner
from detection_core.exporters.tflite import Conversion
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_forms import CLASSES_OF_THREADS, suppression_function
from detection_core.exporters.tflite_post_process import post_process_function
from detection_core.structures import Images
from tests.detection_core.exporters.suppression_files import OPTIONS, ROWS, detections, suppression_file
from tests.support import tiny_files
from tests.support.cases import cases
from tests.support.tflite_operations import list_operations
from tests.support.tiny_files import DECODING, PIXELS, described, file_of, network
from tests.support.tiny_network import CLASSES


def test_the_smallest_case_has_three_classes_and_two_threads():
    options = dataclasses.replace(OPTIONS, num_classes=3)
    anchors = np.array([[0, 0, 1, 1], [2, 2, 1, 1], [4, 4, 1, 1]], np.float32)
    values = np.pad(np.eye(3, dtype=np.float32), [[0, 0], [1, 0]])[np.newaxis]
    for post_process, found in ((post_process_function, {0, 1}), (suppression_function, {0, 1, 2})):
        content = suppression_file(post_process(options), options, anchors, np.zeros_like(anchors))
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


@cases("float32", "int8")
def test_a_file_without_post_processing_finds_what_the_network_finds(tmp_path, *, name):
    path = tmp_path / "model.tflite"
    path.write_bytes(described(name, "headless"))
    found = TFLiteRunner(str(path))(PIXELS[0].astype(np.uint8))
    images = Images(pixels=tf.constant(PIXELS[:1]), true_sizes=None, original_sizes=None, source_ids=None)
    predictions = network(name == "int8").predict(images, training=False)
    logits = predictions.class_logits.numpy()[0, :, 1:]
    boxes, scores, _ = suppressed_heads(predictions.box_codes.numpy()[0], logits, DECODING)
    tolerance = 1e-4 if name == "float32" else 0.05
    np.testing.assert_allclose(found.scores[:5], scores[:5], atol=tolerance)
    if name == "float32":
        np.testing.assert_allclose(found.boxes, np.clip(boxes, 0, 1), atol=1e-4)


def test_integer_files_compute_in_integers_but_for_scores_to_rank_by():
    operations = list_operations(file_of("int8", "headless"))
    assert [operation.name for operation in operations if "float32" in operation.inputs] == []
    found = [operation.name for operation in operations if "float32" in operation.outputs]
    assert found == ["DEQUANTIZE"] * 2
    # A sigmoid's range is known to the converter, which made int8 of it again: 256 scores to rank by.
    without_background = dataclasses.replace(tiny_files.OPTIONS, num_classes=CLASSES + 1)
    for form in ("post_process", "plain_nms"):
        function = tflite_function(network(True), without_background, integer=True, form=form)
        converted = FORMATS["int8"].convert(Conversion(function=function))
        for content in (file_of("int8", form), converted):
            operations = list_operations(content)
            assert [op.outputs for op in operations if op.name == "LOGISTIC"] == [("float32",)], form
            assert sum(op.name == "QUANTIZE" for op in operations) == 1, form  # of the pixels
