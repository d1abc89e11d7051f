import dataclasses
import runpy

import numpy as np
import tensorflow as tf

from detection_core.ops.detection_post_process import plain_post_process
from tests.detection_core.ops.test_post_process_options import OPTIONS
from tests.support.cases import cases

decode = runpy.run_path("examples/headless_decoder/decode.py")["decode"]
RANDOM = np.random.default_rng(3)
# Clusters, so that boxes overlap.
ANCHORS = np.concatenate([RANDOM.uniform(0.2, 0.8, (12, 2)).repeat(6, axis=0), np.full((72, 2), 0.3)], axis=1)
CODES = RANDOM.normal(0.0, 1.0, ANCHORS.shape)
SCORES = RANDOM.uniform(0.0, 1.0, (len(ANCHORS), OPTIONS.num_classes))


@cases(
    {},
    {"max_classes_per_detection": 2, "max_detections": 50},
    {"nms_score_threshold": 0.7, "max_detections": 50},
    {"use_regular_nms": True, "max_detections": 40},
    {"use_regular_nms": True, "detections_per_class": 2},
)
def test_boxes_are_those_of_a_slow_loop(*, changes):
    options = dataclasses.replace(OPTIONS, **changes)
    heads = (CODES[np.newaxis], SCORES[np.newaxis], ANCHORS)
    found = plain_post_process(options)(*(tf.constant(part, tf.float32) for part in heads))
    record = {"anchors": ANCHORS.tolist(), "sigmoid": False, "post_process": dataclasses.asdict(options)}
    expected = decode(CODES.ravel().tolist(), SCORES.ravel().tolist(), record)
    count = int(found.count[0])
    assert count == len(expected) > 3
    np.testing.assert_allclose(found.boxes[0, :count], [one.box for one in expected], atol=1e-5)
    np.testing.assert_allclose(found.scores[0, :count], [one.score for one in expected], atol=1e-6)
    assert found.classes[0, :count].numpy().tolist() == [one.label for one in expected]
    assert not any(part.numpy()[0, count:].any() for part in found[:3])


@cases(
    {},
    {"max_classes_per_detection": 2, "max_detections": 50},
    {"nms_score_threshold": 0.7, "max_detections": 50},
    {"nms_score_threshold": 0.0},
    {"nms_score_threshold": 1.0},
)
def test_logits_give_the_rows_of_their_sigmoids(*, changes):
    options = dataclasses.replace(OPTIONS, **changes)
    logits = tf.constant(4 * SCORES[np.newaxis] - 3, tf.float32)
    codes, anchors = tf.constant(CODES[np.newaxis], tf.float32), tf.constant(ANCHORS, tf.float32)
    expected = plain_post_process(options)(codes, tf.sigmoid(logits), anchors)
    found = plain_post_process(options, tf.identity)(codes, logits, anchors)
    assert (expected.count[0] == 0) == (options.nms_score_threshold == 1.0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
