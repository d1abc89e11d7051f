"""Non-maximum suppression of a batch, class by class.

A candidate is a pair of anchor and class whose score exceeds the threshold. In each class candidates are
taken by falling score, and one is dropped when its IoU with a box already taken exceeds the limit. Boxes
are clipped to the window after that, those without area left are dropped, and the best of all classes stay.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from detection_core.ops import boxes as box_ops

# Score of a row that holds no candidate; every real score is larger.
NO_CANDIDATE = -1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class NmsOptions:
    """How to suppress.

    Attributes:
        score_threshold: candidates have a score above it; at least 0.
        iou_threshold: two boxes of one class that overlap more are the same object; in [0, 1].
        max_detections_per_class: boxes of one class in one image.
        max_total_detections: boxes of all classes in one image, D.
        class_agnostic: whether each anchor stands for its best class only and suppresses across classes.
        soft_nms_sigma: above 0, boxes that overlap lose score, exp(-IoU^2 / (2 sigma)), instead of being
            dropped at once (Bodla et al., Soft-NMS, 2017); 0 is hard suppression.
        change_coordinate_frame: whether boxes are returned relative to the window.
    """

    score_threshold: float
    iou_threshold: float
    max_detections_per_class: int
    max_total_detections: int
    class_agnostic: bool = False
    soft_nms_sigma: float = 0.0
    change_coordinate_frame: bool = False


class NmsResult(NamedTuple):
    """What is left, sorted by falling score and zero-padded to D.

    Attributes:
        boxes: float32 [B, D, 4], clipped to the window, and relative to it if the options say so.
        scores: float32 [B, D].
        classes: int32 [B, D], in [0, C).
        count: int32 [B], how many of the D rows are detections.
        anchor_indices: int32 [B, D], anchor that each detection comes from.
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    classes: tf.Tensor
    count: tf.Tensor
    anchor_indices: tf.Tensor


class _Candidates(NamedTuple):
    """Survivors of suppression inside the classes, K of them, in no set order.

    Attributes:
        boxes: float32 [B, K, 4], as they came in.
        scores: float32 [B, K], NO_CANDIDATE in empty rows.
        classes: int32 [B, K].
        anchors: int32 [B, K]; zero columns where only a search can tell.
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    classes: tf.Tensor
    anchors: tf.Tensor


def multiclass_nms(
    boxes: tf.Tensor, scores: tf.Tensor, options: NmsOptions, window: tf.Tensor | None = None
) -> NmsResult:
    """Suppress double detections in every image of a batch.

    Args:
        boxes: float32 [B, A, 4], or [B, A, C, 4] where each class has a box of its own.
        scores: float32 [B, A, C], without background.
        options: how to suppress.
        window: float32 [B, 4], the true image in the frame of the boxes; None leaves boxes as they are.

    Returns:
        The detections of every image; D is max_total_detections.

    Raises:
        ValueError: when boxes are to be relative to a window that is not given.
    """
    if window is None and options.change_coordinate_frame:
        raise ValueError("change_coordinate_frame needs a window to change to, found None")
    with tf.name_scope("multiclass_nms"):
        boxes = boxes[:, :, tf.newaxis, :] if len(boxes.shape) == 3 else boxes
        if not options.class_agnostic:
            return _finish(_suppress(boxes, scores, options), boxes, scores, options, window)
        best_class = tf.argmax(scores, axis=-1, output_type=tf.int32)
        best_scores = tf.reduce_max(scores, axis=-1, keepdims=True)
        if boxes.shape[2] != 1:
            boxes = tf.gather(boxes, best_class, axis=2, batch_dims=2)[:, :, tf.newaxis, :]
        one_class = dataclasses.replace(options, max_detections_per_class=options.max_total_detections)
        candidates = _suppress(boxes, best_scores, one_class)
        result = _finish(candidates, boxes, best_scores, one_class, window)
        classes = tf.gather(best_class, result.anchor_indices, batch_dims=1)
        return result._replace(classes=tf.where(_filled(result), classes, 0))


def _suppress(boxes: tf.Tensor, scores: tf.Tensor, options: NmsOptions) -> _Candidates:
    return (soft_candidates if options.soft_nms_sigma else hard_candidates)(boxes, scores, options)


def hard_candidates(boxes: tf.Tensor, scores: tf.Tensor, options: NmsOptions) -> _Candidates:
    """Suppress with the one kernel that takes a whole batch; it is fast but keeps no anchor indices.

    Args:
        boxes: float32 [B, A, 1 or C, 4].
        scores: float32 [B, A, C].
        options: how to suppress.

    Returns:
        All survivors of every class.
    """
    anchors, classes = tf.shape(scores)[1], tf.shape(scores)[2]
    per_class = tf.minimum(options.max_detections_per_class, anchors)
    # Room for every survivor: what clipping removes must not take the place of what comes after it.
    found = tf.image.combined_non_max_suppression(
        boxes,
        scores,
        max_output_size_per_class=per_class,
        max_total_size=per_class * classes,
        iou_threshold=options.iou_threshold,
        score_threshold=options.score_threshold,
        clip_boxes=False,
    )
    filled = tf.sequence_mask(found.valid_detections, tf.shape(found.nmsed_scores)[1])
    return _Candidates(
        boxes=found.nmsed_boxes,
        scores=tf.where(filled, found.nmsed_scores, NO_CANDIDATE),
        classes=tf.cast(found.nmsed_classes, tf.int32),
        anchors=tf.zeros([tf.shape(scores)[0], 0], tf.int32),
    )


def soft_candidates(boxes: tf.Tensor, scores: tf.Tensor, options: NmsOptions) -> _Candidates:
    """Suppress one class of one image after the other, with falling scores where sigma is above 0.

    Args:
        boxes: float32 [B, A, 1 or C, 4].
        scores: float32 [B, A, C].
        options: how to suppress.

    Returns:
        All survivors of every class.
    """
    batch, anchors, classes = tf.unstack(tf.shape(scores))
    per_class = tf.minimum(options.max_detections_per_class, anchors)
    class_boxes = tf.broadcast_to(boxes, tf.stack([batch, anchors, classes, 4]))
    flat_boxes = tf.reshape(tf.transpose(class_boxes, [0, 2, 1, 3]), [-1, anchors, 4])
    flat_scores = tf.reshape(tf.transpose(scores, [0, 2, 1]), [-1, anchors])

    def suppress(pair: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        chosen, new_scores = tf.image.non_max_suppression_with_scores(
            pair[0],
            pair[1],
            per_class,
            iou_threshold=options.iou_threshold,
            score_threshold=options.score_threshold,
            soft_nms_sigma=options.soft_nms_sigma,
        )
        padding = [[0, per_class - tf.shape(chosen)[0]]]
        return tf.pad(chosen, padding), tf.pad(new_scores, padding, constant_values=NO_CANDIDATE)

    specs = (tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32))
    chosen, new_scores = tf.map_fn(suppress, (flat_boxes, flat_scores), fn_output_signature=specs)
    chosen_boxes = tf.gather(flat_boxes, chosen, batch_dims=1)
    class_of_row = tf.repeat(tf.range(classes), per_class)
    return _Candidates(
        boxes=tf.reshape(chosen_boxes, [batch, -1, 4]),
        scores=tf.reshape(new_scores, [batch, -1]),
        classes=tf.tile(class_of_row[tf.newaxis], [batch, 1]),
        anchors=tf.reshape(chosen, [batch, -1]),
    )


def _finish(
    candidates: _Candidates,
    boxes: tf.Tensor,
    scores: tf.Tensor,
    options: NmsOptions,
    window: tf.Tensor | None,
) -> NmsResult:
    """Clip, drop what has no area left, keep the best of all classes and pad."""
    shown, ranking = candidates.boxes, candidates.scores
    if window is not None:
        shown = box_ops.clip(shown, window[:, tf.newaxis, :])
        ranking = tf.where(box_ops.area(shown) > 0.0, ranking, NO_CANDIDATE)
        if options.change_coordinate_frame:
            shown = box_ops.change_frame(shown, window[:, tf.newaxis, :])
    limit = options.max_total_detections
    missing = tf.maximum(limit - tf.shape(ranking)[1], 0)
    kept_scores, kept = tf.math.top_k(ranking, tf.minimum(limit, tf.shape(ranking)[1]))
    best = _Candidates(
        boxes=tf.gather(candidates.boxes, kept, batch_dims=1),
        scores=kept_scores,
        classes=tf.gather(candidates.classes, kept, batch_dims=1),
        anchors=candidates.anchors,
    )
    if candidates.anchors.shape[1] == 0:
        anchors = _find_anchors(boxes, scores, best)
    else:
        anchors = tf.gather(candidates.anchors, kept, batch_dims=1)
    filled = kept_scores > NO_CANDIDATE

    def pad(values: tf.Tensor) -> tf.Tensor:
        mask = filled[..., tf.newaxis] if len(values.shape) == 3 else filled
        cleared = tf.where(mask, values, tf.zeros_like(values))
        padded = tf.pad(cleared, [[0, 0], [0, missing]] + [[0, 0]] * (len(values.shape) - 2))
        return tf.ensure_shape(padded, [values.shape[0], limit, *values.shape[2:]])

    return NmsResult(
        boxes=pad(tf.gather(shown, kept, batch_dims=1)),
        scores=pad(kept_scores),
        classes=pad(best.classes),
        count=tf.reduce_sum(tf.cast(filled, tf.int32), axis=1),
        anchor_indices=pad(anchors),
    )


def _find_anchors(boxes: tf.Tensor, scores: tf.Tensor, found: _Candidates) -> tf.Tensor:
    """Find the first anchor with exactly the box and the class score of each detection.

    Two anchors that share both cannot both be detections, as one suppresses the other, so the first is as
    good as the second.

    Args:
        boxes: float32 [B, A, 1 or C, 4].
        scores: float32 [B, A, C].
        found: detections, D of them.

    Returns:
        int32 [B, D].
    """
    class_scores = tf.gather(tf.transpose(scores, [0, 2, 1]), found.classes, batch_dims=1)
    same = class_scores == found.scores[..., tf.newaxis]
    for coordinate in range(4):
        by_class = tf.transpose(boxes[..., coordinate], [0, 2, 1])
        # One row serves all classes of boxes that are shared, without a copy for each detection.
        column = by_class if boxes.shape[2] == 1 else tf.gather(by_class, found.classes, batch_dims=1)
        same &= column == found.boxes[..., coordinate, tf.newaxis]
    return tf.argmax(same, axis=-1, output_type=tf.int32)


def _filled(result: NmsResult) -> tf.Tensor:
    return tf.sequence_mask(result.count, tf.shape(result.scores)[1])
