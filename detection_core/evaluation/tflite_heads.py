"""Decode a TensorFlow Lite file without post-processing, as MediaPipe does."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from detection_core.artifacts.tflite_metadata import BoxDecoding
from detection_core.ops.nms import NmsOptions, multiclass_nms

# Measured on MediaPipe 1.2.2's ObjectDetector, which has no option for it: 0.3 reproduces its detections.
MEDIAPIPE_OVERLAP = 0.3
MOST_DETECTIONS = 100
MEDIAPIPE_NMS = NmsOptions(
    score_threshold=-float(np.finfo(np.float32).tiny),  # 0 is a valid score
    iou_threshold=MEDIAPIPE_OVERLAP,
    max_detections_per_class=MOST_DETECTIONS,
    max_total_detections=MOST_DETECTIONS,
    class_agnostic=True,
)


def suppressed_heads(
    codes: np.ndarray, raw_scores: np.ndarray, decoding: BoxDecoding, options: NmsOptions = MEDIAPIPE_NMS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decode boxes and suppress them across classes by their best scores.

    Args:
        codes: float32 [A, 4], ty, tx, th, tw.
        raw_scores: float32 [A, C].
        decoding: anchors and scales.
        options: limits of the suppression.

    Returns:
        Boxes float32 [D, 4] (ymin, xmin, ymax, xmax, normalised, not clipped), scores [D], descending, and
        classes [D], from 0.
    """
    scores = 1 / (1 + np.exp(-raw_scores)) if decoding.sigmoid else raw_scores
    boxes = decoded_heads(codes, decoding)
    found = multiclass_nms(tf.constant(boxes[np.newaxis]), tf.constant(scores[np.newaxis]), options)
    boxes, scores, classes = (each[0, : found.count[0]].numpy() for each in found[:3])
    return boxes, scores, classes.astype(np.float32)


def decoded_heads(codes: np.ndarray, decoding: BoxDecoding) -> np.ndarray:
    """Decode boxes, float32 [A, 4]: ymin, xmin, ymax, xmax; see `suppressed_heads`."""
    anchors = decoding.anchors
    scaled = codes / np.asarray(decoding.scales, np.float32)
    centres = scaled[:, :2] * anchors[:, 2:] + anchors[:, :2]
    halves = np.exp(scaled[:, 2:]) * anchors[:, 2:] / 2
    return np.concatenate([centres - halves, centres + halves], axis=1)
