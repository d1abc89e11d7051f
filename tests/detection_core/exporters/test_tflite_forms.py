"""A file gives every class with any number of threads."""

from __future__ import annotations

import dataclasses

import numpy as np

from detection_core.exporters.tflite_forms import CLASSES_OF_THREADS, suppression_function
from detection_core.exporters.tflite_post_process import post_process_function
from tests.detection_core.exporters.test_tflite_plain_suppression import OPTIONS, ROWS, detections, file_of


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
