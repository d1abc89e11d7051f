"""Detections of a TensorFlow Lite file without post-processing, as MediaPipe makes them."""

from __future__ import annotations

import dataclasses

import numpy as np

from detection_core.artifacts.tflite_decoding import BoxDecoding

# MediaPipe 1.2.2's ObjectDetector, which has no option for it: with 0.3 its detections are these.
MEDIAPIPE_OVERLAP = 0.3


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadSuppression:
    """What is kept.

    Attributes:
        overlap: boxes whose intersection over union with a better one is larger go, of whatever class.
        max_detections: boxes that are kept.
        score_threshold: least score.
    """

    overlap: float = MEDIAPIPE_OVERLAP
    max_detections: int = 100
    score_threshold: float = 0.0


def suppressed_heads(
    codes: np.ndarray, raw_scores: np.ndarray, decoding: BoxDecoding, options: HeadSuppression | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decode boxes, and let them suppress each other by their best classes.

    Args:
        codes: float32 [A, 4], ty, tx, th, tw.
        raw_scores: float32 [A, C].
        decoding: what they mean.
        options: what is kept; None: what MediaPipe keeps, up to 100.

    Returns:
        Boxes float32 [D, 4] (ymin, xmin, ymax, xmax, normalised, not clipped), scores [D], falling, and
        classes [D], from 0.
    """
    options = options or HeadSuppression()
    scores = 1 / (1 + np.exp(-raw_scores)) if decoding.sigmoid else raw_scores
    classes, best = scores.argmax(axis=1), scores.max(axis=1)
    boxes = decoded_heads(codes, decoding)
    order = np.argsort(-best, kind="stable")
    order = order[best[order] >= options.score_threshold]
    kept: list[int] = []
    while len(order) and len(kept) < options.max_detections:
        first, order = order[0], order[1:]
        kept.append(int(first))
        order = order[_overlap(boxes[first], boxes[order]) <= options.overlap]
    return boxes[kept], best[kept], classes[kept].astype(np.float32)


def decoded_heads(codes: np.ndarray, decoding: BoxDecoding) -> np.ndarray:
    """Decode boxes, float32 [A, 4]: ymin, xmin, ymax, xmax; see `suppressed_heads`."""
    anchors = decoding.anchors
    scaled = codes / np.asarray(decoding.scales, np.float32)
    centres = scaled[:, :2] * anchors[:, 2:] + anchors[:, :2]
    halves = np.exp(scaled[:, 2:]) * anchors[:, 2:] / 2
    return np.concatenate([centres - halves, centres + halves], axis=1)


def _overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the intersections over union of a box with others, float32 [N]."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.clip(sides, 0, None).prod(axis=1)
    union = (box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(axis=1) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
