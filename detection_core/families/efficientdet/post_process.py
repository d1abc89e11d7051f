"""Post-processing of google/automl's EfficientDet: predictions of anchors to detections."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from detection_core.families.efficientdet.box_coder import EfficientDetBoxCoder
from detection_core.ops import boxes as box_ops
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.structures import Detections, box_detections

SOFT_IOU_THRESHOLD = 0.5
COMBINED_IOU_THRESHOLD = 0.5
_NO_CANDIDATE = -1.0
Suppression = Callable[[tf.Tensor, tf.Tensor, "SuppressionOptions"], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]
"""From boxes [N, 4], scores [N] and options to the kept rows, their scores, and their count, padded to D."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SuppressionOptions:
    """How detections are chosen.

    Attributes:
        mode: "global": boxes of all classes suppress each other; "per_class": those of one class do;
            "combined": the same with TensorFlow's combined operation, hard, of all classes of each anchor;
            "numpy_per_class": those of one class do as `_suppress_as_numpy` says.
        soft: lower the scores of boxes that overlap, https://arxiv.org/abs/1704.04503, in place of dropping
            them.
        iou_threshold: overlap from which a box is dropped.
        score_threshold: candidates have a score above it.
        sigma: of soft suppression, as the paper has it.
        max_inputs: pairs of anchor and class with the best scores that are looked at; 0: each anchor with
            its best class.
        max_detections: D.
    """

    mode: str
    soft: bool
    iou_threshold: float
    score_threshold: float
    sigma: float
    max_inputs: int
    max_detections: int


def candidates(predictions: AnchorPredictions, max_inputs: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Decode boxes and choose a class for each.

    Args:
        predictions: anchors in pixels.
        max_inputs: as in `SuppressionOptions`.

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
    """Choose detections.

    Args:
        predictions: anchors in pixels.
        options: how they are chosen.
        size: rows and columns of the network's input.

    Returns:
        Boxes in pixels of the network's input, clipped to it but for those of single classes. Rows past the
        count are 0.
    """
    return _MODES[options.mode](predictions, options, tf.constant([0.0, 0.0, *size], tf.float32))


def _global(predictions: AnchorPredictions, options: SuppressionOptions, window: tf.Tensor) -> Detections:
    def suppress(image: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        chosen, kept, count = _suppress(image[0], image[1], options)
        return tf.gather(image[0], chosen), kept, tf.gather(image[2], chosen), count

    found = candidates(predictions, options.max_inputs)
    boxes, *others = _each_image(suppress, found, options)
    return _detections(box_ops.clip(boxes, window), *others)


def _per_class(
    predictions: AnchorPredictions,
    options: SuppressionOptions,
    window: tf.Tensor,
    *,
    suppress_one: Suppression,
) -> Detections:
    del window  # Boxes are not clipped.
    num_classes = predictions.class_logits.shape[2]
    limit = options.max_detections

    def suppress(image: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        boxes, scores, classes = image

        def of_class(label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            own = tf.where(classes == label, scores, -float("inf"))
            chosen, kept, count = suppress_one(boxes, own, options)
            return chosen, tf.where(tf.range(limit) < count, kept, _NO_CANDIDATE)

        specs = tf.TensorSpec([limit], tf.int32), tf.TensorSpec([limit], tf.float32)
        chosen, kept = tf.map_fn(of_class, tf.range(num_classes), fn_output_signature=specs)
        best, order = tf.math.top_k(tf.reshape(kept, [-1]), limit)
        rows = tf.gather(tf.reshape(chosen, [-1]), order)
        count = tf.math.count_nonzero(best > _NO_CANDIDATE, dtype=tf.int32)
        return tf.gather(boxes, rows), best, order // limit, count

    return _detections(*_each_image(suppress, candidates(predictions, options.max_inputs), options))


def _combined(predictions: AnchorPredictions, options: SuppressionOptions, window: tf.Tensor) -> Detections:
    boxes = EfficientDetBoxCoder().decode(predictions.box_codes, predictions.anchors)
    found = tf.image.combined_non_max_suppression(
        boxes[:, :, tf.newaxis],
        tf.sigmoid(predictions.class_logits),
        options.max_detections,
        options.max_detections,
        iou_threshold=COMBINED_IOU_THRESHOLD,
        score_threshold=options.score_threshold,
        clip_boxes=False,
    )
    classes = tf.cast(found.nmsed_classes, tf.int32)
    boxes = box_ops.clip(found.nmsed_boxes, window)
    return _detections(boxes, found.nmsed_scores, classes, found.valid_detections)


def _suppress(
    boxes: tf.Tensor, scores: tf.Tensor, options: SuppressionOptions
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the rows that are kept, their scores, and how many they are, padded to D."""
    return _suppress_above(SOFT_IOU_THRESHOLD, boxes, scores, options)


def _suppress_above(
    soft_iou_threshold: float, boxes: tf.Tensor, scores: tf.Tensor, options: SuppressionOptions
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    # The operation takes half of the paper's sigma.
    found = tf.raw_ops.NonMaxSuppressionV5(
        boxes=boxes,
        scores=scores,
        max_output_size=options.max_detections,
        iou_threshold=soft_iou_threshold if options.soft else options.iou_threshold,
        score_threshold=options.score_threshold,
        soft_nms_sigma=options.sigma / 2.0 if options.soft else 0.0,
        pad_to_max_output_size=True,
    )
    return found.selected_indices, found.selected_scores, found.valid_outputs


def _suppress_as_numpy(
    boxes: tf.Tensor, scores: tf.Tensor, options: SuppressionOptions
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Suppress as google/automl's evaluation in NumPy does, and return what `_suppress` does.

    A box holds its last pixel, so that its sides are a pixel longer where overlaps are measured. Hard: no
    score is too low. Soft: no overlap is too large, and the best box is kept whatever its score.
    """
    if not options.soft:
        options = dataclasses.replace(options, score_threshold=-float("inf"))
    last_pixel = tf.constant([0.0, 0.0, 1.0, 1.0])
    chosen, kept, count = _suppress_above(1.0, boxes + last_pixel, scores, options)
    best, best_score = tf.argmax(scores, output_type=tf.int32), tf.reduce_max(scores)
    alone = (count == 0) & (best_score > -float("inf"))
    return (
        tf.where(alone, tf.fill(tf.shape(chosen), best), chosen),
        tf.where(alone, tf.fill(tf.shape(kept), best_score), kept),
        tf.where(alone, 1, count),
    )


_MODES: dict[str, Callable[[AnchorPredictions, SuppressionOptions, tf.Tensor], Detections]] = {
    "global": _global,
    "per_class": functools.partial(_per_class, suppress_one=_suppress),
    "combined": _combined,
    "numpy_per_class": functools.partial(_per_class, suppress_one=_suppress_as_numpy),
}


def _each_image(
    suppress: Callable[[tuple[tf.Tensor, ...]], tuple[tf.Tensor, ...]],
    batch: tuple[tf.Tensor, ...],
    options: SuppressionOptions,
) -> tuple[tf.Tensor, ...]:
    limit = options.max_detections
    specs = (
        tf.TensorSpec([limit, 4], tf.float32),
        tf.TensorSpec([limit], tf.float32),
        tf.TensorSpec([limit], tf.int32),
        tf.TensorSpec([], tf.int32),
    )
    found: tuple[tf.Tensor, ...] = tf.map_fn(suppress, batch, fn_output_signature=specs)
    return found


def _detections(boxes: tf.Tensor, scores: tf.Tensor, classes: tf.Tensor, count: tf.Tensor) -> Detections:
    filled = tf.sequence_mask(count, tf.shape(scores)[1])
    return box_detections(
        tf.where(filled[..., tf.newaxis], boxes, 0.0),
        tf.where(filled, scores, 0.0),
        tf.where(filled, classes, 0),
        count,
    )


def in_true_image(detections: Detections, true_sizes: tf.Tensor) -> Detections:
    """Express boxes in the true image, and drop those that are outside it.

    Args:
        detections: boxes in pixels of the network's input.
        true_sizes: int32 [B, 2], rows and columns of the input that hold the image.

    Returns:
        Boxes normalised to the true image and clipped to it, sorted by falling score.
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
