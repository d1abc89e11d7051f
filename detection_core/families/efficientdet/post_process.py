"""Post-processing of google/automl's EfficientDet: anchor predictions to detections."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.families.efficientdet.losses import EfficientDetBoxCoder
from detection_core.ops import boxes as box_ops
from detection_core.ops.nms import NmsOptions, multiclass_nms
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.structures import Detections, box_detections

SOFT_IOU_THRESHOLD = 0.5
COMBINED_IOU_THRESHOLD = 0.5
_NO_CANDIDATE = -1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SuppressionOptions:
    """Options of non-maximum suppression.

    Attributes:
        mode: "global": boxes of all classes suppress each other. "per_class": boxes of the same class do.
            "combined": hard suppression per class, with all classes of each anchor. "numpy_per_class": see
            `_numpy_per_class`.
        soft: lower the scores of overlapping boxes, https://arxiv.org/abs/1704.04503, instead of dropping
            them.
        iou_threshold: IoU from which a box is dropped.
        score_threshold: candidates have a higher score.
        sigma: of soft suppression, as in the paper.
        max_inputs: number of highest-scoring pairs of anchor and class to consider; 0: each anchor with its
            best class.
        max_detections: D.
    """

    mode: str
    soft: bool
    iou_threshold: float
    score_threshold: float
    sigma: float
    max_inputs: int
    max_detections: int

    @property
    def nms(self) -> NmsOptions:
        """Return the options of `multiclass_nms`, which takes half of the paper's sigma."""
        return NmsOptions(
            score_threshold=self.score_threshold,
            iou_threshold=SOFT_IOU_THRESHOLD if self.soft else self.iou_threshold,
            max_detections_per_class=self.max_detections,
            max_total_detections=self.max_detections,
            soft_nms_sigma=self.sigma / 2.0 if self.soft else 0.0,
        )


def candidates(predictions: AnchorPredictions, max_inputs: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Decode boxes and choose a class for each.

    Returns:
        N boxes, float32 [B, N, 4] in pixels, their scores, float32 [B, N], and classes, int32 [B, N].
    """
    logits, codes, anchors = predictions.class_logits, predictions.box_codes, predictions.anchors
    if max_inputs:
        classes = tf.shape(logits)[2]
        flat = tf.reshape(logits, [tf.shape(logits)[0], -1])
        best, pairs = tf.math.top_k(flat, tf.minimum(max_inputs, tf.shape(flat)[1]))
        rows = pairs // classes
        codes, anchors = tf.gather(codes, rows, batch_dims=1), predictions.anchors_at(rows)
        chosen = pairs % classes
    else:
        best, chosen = tf.reduce_max(logits, axis=-1), tf.argmax(logits, axis=-1, output_type=tf.int32)
    return EfficientDetBoxCoder().decode(codes, anchors), tf.sigmoid(best), chosen


def detections_px(
    predictions: AnchorPredictions, options: SuppressionOptions, size: tuple[int, int]
) -> Detections:
    """Suppress; boxes are in pixels of the network's input, clipped to it except in per-class modes.

    Rows past the count are 0.
    """
    return _MODES[options.mode](predictions, options, tf.constant([0.0, 0.0, *size], tf.float32))


def _global(predictions: AnchorPredictions, options: SuppressionOptions, window: tf.Tensor) -> Detections:
    boxes, scores, classes = candidates(predictions, options.max_inputs)
    found = multiclass_nms(boxes, scores[..., tf.newaxis], options.nms)
    chosen = tf.gather(classes, found.anchor_indices, batch_dims=1)
    return _detections(box_ops.clip(found.boxes, window), found.scores, chosen, found.count)


def _per_class(predictions: AnchorPredictions, options: SuppressionOptions, window: tf.Tensor) -> Detections:
    del window  # Boxes are not clipped.
    boxes, scores = _by_class(predictions, options)
    found = multiclass_nms(boxes, scores, options.nms)
    return _detections(found.boxes, found.scores, found.classes, found.count)


def _combined(predictions: AnchorPredictions, options: SuppressionOptions, window: tf.Tensor) -> Detections:
    boxes = EfficientDetBoxCoder().decode(predictions.box_codes, predictions.anchors)
    hard = dataclasses.replace(options.nms, iou_threshold=COMBINED_IOU_THRESHOLD, soft_nms_sigma=0.0)
    found = multiclass_nms(boxes, tf.sigmoid(predictions.class_logits), hard)
    return _detections(box_ops.clip(found.boxes, window), found.scores, found.classes, found.count)


def _numpy_per_class(
    predictions: AnchorPredictions, options: SuppressionOptions, window: tf.Tensor
) -> Detections:
    """Suppress as in google/automl's NumPy evaluation.

    Boxes include their last pixel, so their sides are one pixel longer when overlaps are measured. Hard:
    there is no score threshold. Soft: there is no IoU threshold, and the best box of each class is always
    kept.
    """
    del window  # Boxes are not clipped.
    boxes, scores = _by_class(predictions, options)
    soft = dataclasses.replace(options.nms, iou_threshold=1.0)
    nms = soft if options.soft else dataclasses.replace(options.nms, score_threshold=-float("inf"))
    found = multiclass_nms(boxes + tf.constant([0.0, 0.0, 1.0, 1.0]), scores, nms)
    filled = tf.sequence_mask(found.count, options.max_detections)
    best = tf.reduce_max(scores, axis=1)
    low = tf.where(best > nms.score_threshold, -float("inf"), best)
    all_scores = tf.concat([tf.where(filled, found.scores, -float("inf")), low], axis=1)
    rows = tf.concat([found.anchor_indices, tf.argmax(scores, axis=1, output_type=tf.int32)], axis=1)
    each_class = tf.broadcast_to(tf.range(scores.shape[2]), tf.shape(low))
    classes = tf.concat([found.classes, each_class], axis=1)
    kept, order = tf.math.top_k(all_scores, options.max_detections)
    count = tf.math.count_nonzero(kept > -float("inf"), axis=1, dtype=tf.int32)
    chosen = tf.gather(boxes, tf.gather(rows, order, batch_dims=1), batch_dims=1)
    return _detections(chosen, kept, tf.gather(classes, order, batch_dims=1), count)


def _by_class(predictions: AnchorPredictions, options: SuppressionOptions) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the candidates' boxes and scores, float32 [B, N, C], minus infinity for other classes."""
    boxes, scores, classes = candidates(predictions, options.max_inputs)
    own = tf.one_hot(classes, predictions.class_logits.shape[2], True, False, dtype=tf.bool)
    return boxes, tf.where(own, scores[..., tf.newaxis], -float("inf"))


_MODES: dict[str, Callable[[AnchorPredictions, SuppressionOptions, tf.Tensor], Detections]] = {
    "global": _global,
    "per_class": _per_class,
    "combined": _combined,
    "numpy_per_class": _numpy_per_class,
}


def _detections(boxes: tf.Tensor, scores: tf.Tensor, classes: tf.Tensor, count: tf.Tensor) -> Detections:
    filled = tf.sequence_mask(count, tf.shape(scores)[1])
    return box_detections(
        tf.where(filled[..., tf.newaxis], boxes, 0.0),
        tf.where(filled, scores, 0.0),
        tf.where(filled, classes, 0),
        count,
    )


def in_true_image(detections: Detections, true_sizes: tf.Tensor) -> Detections:
    """Convert boxes from pixels of the input to the true image; clip them and drop those outside it.

    `true_sizes` is int32 [B, 2], rows and columns of the input that hold the image. The result is sorted by
    descending score.
    """
    sides = tf.cast(tf.concat([true_sizes, true_sizes], axis=-1), tf.float32)[:, tf.newaxis]
    boxes = tf.clip_by_value(detections.boxes / sides, 0.0, 1.0)
    filled = tf.sequence_mask(detections.count, tf.shape(detections.scores)[1])
    shown = filled & (box_ops.area(boxes) > 0.0)
    ranking = tf.where(shown, detections.scores, _NO_CANDIDATE)
    scores, order = tf.math.top_k(ranking, detections.scores.shape[1])
    classes = tf.gather(detections.classes, order, batch_dims=1)
    count = tf.math.count_nonzero(shown, axis=1, dtype=tf.int32)
    return _detections(tf.gather(boxes, order, batch_dims=1), scores, classes, count)
