"""A portable graph takes pixels and gives what the detector finds."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from detection_core.detectors.ssd.tflite import tflite_function
from detection_core.exporters.portable_graph import DETECTIONS, portable_function
from tests.detection_core.exporters.test_tflite import OPTIONS, PIXELS, TinyDetector, reference

NORMALISATION = ((127.5,) * 3, (127.5,) * 3)


def portable(form):
    function = tflite_function(TinyDetector(), OPTIONS, integer=False, form=form)
    return portable_function(function, NORMALISATION)


def test_it_gives_detections_by_the_names_of_the_object_detection_api():
    function = portable("plain_nms")
    assert set(function.structured_outputs) == set(DETECTIONS)
    found = function(images=tf.constant(PIXELS[:1]))
    expected = reference(TinyDetector(), PIXELS[:1])
    np.testing.assert_allclose(found["detection_scores"][0], expected["scores"], atol=1e-5)
    np.testing.assert_array_equal(found["detection_classes"][0], expected["classes"] + 1)
    np.testing.assert_allclose(found["detection_boxes"][0], expected["boxes"], atol=1e-5)
    assert found["num_detections"] == [10.0]


def test_classes_apart_find_at_least_as_much():
    by_class = dataclasses.replace(OPTIONS, use_regular_nms=True, max_detections=100)
    function = tflite_function(TinyDetector(), by_class, integer=False, form="plain_nms")
    found = portable_function(function, NORMALISATION)(images=tf.constant(PIXELS[:1]))
    assert found["num_detections"][0] > 10


def test_heads_keep_their_names():
    found = portable("headless")(images=tf.constant(PIXELS[:1]))
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "location": (1, 160, 4),
        "score": (1, 160, 3),
    }
