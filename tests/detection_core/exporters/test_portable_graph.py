import dataclasses

import numpy as np
import tensorflow as tf

from detection_core.detectors.ssd.tflite import tflite_function
from detection_core.exporters.portable_graph import DETECTIONS, portable_function
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import INPUTS, OPTIONS, PIXELS, file_of, function_of, run

NORMALISATION = ((127.5,) * 3, (127.5,) * 3)
IMAGE = tf.constant(PIXELS[:1])


def test_detections_and_heads_have_the_names_of_the_object_detection_api():
    function = portable_function(function_of(False, "plain_nms"), NORMALISATION)
    assert set(function.structured_outputs) == set(DETECTIONS)
    found = function(images=IMAGE)
    # `test_tflite` holds the file against suppression by hand.
    expected = run(file_of("float32"), INPUTS[0])
    np.testing.assert_allclose(found["detection_scores"], expected["output_1"], atol=1e-5)
    np.testing.assert_array_equal(found["detection_classes"], expected["output_2"] + 1)
    np.testing.assert_allclose(found["detection_boxes"], expected["output_3"], atol=1e-5)
    assert found["num_detections"] == [10.0]
    by_class = dataclasses.replace(OPTIONS, use_regular_nms=True, max_detections=100)
    function = tflite_function(TinyDetector(), by_class, integer=False, form="plain_nms")
    assert portable_function(function, NORMALISATION)(images=IMAGE)["num_detections"][0] > 10
    found = portable_function(function_of(False, "headless"), NORMALISATION)(images=IMAGE)
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "location": (1, 160, 4),
        "score": (1, 160, 3),
    }
