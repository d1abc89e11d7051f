"""Batched non-maximum suppression per class.

A candidate is a pair of anchor and class with a score above the threshold. Each class takes its candidates by
falling score, and drops one whose IoU with a taken box exceeds the limit. Then boxes are clipped to the
window, boxes without area are dropped, and the best of all classes stay.

Ties are ordered: within a class, the lower anchor comes first; between classes, the lower class. The Object
Detection API has this order too. It is the same in eager mode and in exported models.

Greedy suppression per class: Girshick et al., "Rich feature hierarchies for accurate object detection and
semantic segmentation", 2014, https://arxiv.org/abs/1311.2524.
"""

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.ops.leading import NO_CANDIDATE, Leading, leading_candidates

# Candidates of each class that are sorted for the kernel that processes all classes at once.
SORTED_CANDIDATES = 1024
# `best_first` looks at this many anchors first: at least LEADING_ANCHORS, and a multiple of the requested
# detections. The last number is candidates per anchor.
LEADING_ANCHORS = 512
LEADING_ANCHORS_A_DETECTION = 4
LEADING_CANDIDATES_AN_ANCHOR = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class NmsOptions:
    """Options of suppression.

    Attributes:
        score_threshold: candidates have a score above it; at least 0, or minus infinity: scores of minus
            infinity are no candidates.
        iou_threshold: two boxes of one class with a larger IoU are the same object; in [0, 1].
        max_detections_per_class: maximum boxes of one class in one image.
        max_total_detections: maximum boxes of all classes in one image, D.
        class_agnostic: whether each anchor only counts with its best class, and suppression ignores classes.
        soft_nms_sigma: above 0, overlapping boxes lose score by exp(-IoU^2 / (2 sigma)) and are not dropped
            at once. Bodla et al., "Soft-NMS", 2017, https://arxiv.org/abs/1704.04503. 0 is hard suppression.
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
    """Detections, sorted by falling score, then class, then anchor, and zero-padded to D.

    Attributes:
        boxes: float32 [B, D, 4], clipped to the window, relative to it with `change_coordinate_frame`.
        scores: float32 [B, D].
        classes: int32 [B, D], in [0, C).
        count: int32 [B], number of detections in the D rows.
        anchor_indices: int32 [B, D], anchor of each detection.
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    classes: tf.Tensor
    count: tf.Tensor
    anchor_indices: tf.Tensor


class _Candidates(NamedTuple):
    """Survivors within the classes, K per class in the order of selection.

    Attributes:
        boxes: float32 [B, C * K, 4], unclipped.
        scores: float32 [B, C * K], NO_CANDIDATE in empty rows.
        classes: int32 [B, C * K].
        anchors: int32 [B, C * K].
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    classes: tf.Tensor
    anchors: tf.Tensor


def multiclass_nms(
    boxes: tf.Tensor, scores: tf.Tensor, options: NmsOptions, window: tf.Tensor | None = None
) -> NmsResult:
    """Suppress duplicate detections in every image of a batch.

    Args:
        boxes: float32 [B, A, 4], or [B, A, C, 4] with a separate box per class.
        scores: float32 [B, A, C], without background.
        options: how to suppress.
        window: float32 [B, 4], the true image in the frame of the boxes; None: boxes are not clipped.

    Raises:
        ValueError: for `change_coordinate_frame` without a window.
    """
    if window is None and options.change_coordinate_frame:
        raise ValueError("change_coordinate_frame needs a window to change to, found None")
    with tf.name_scope("multiclass_nms"):
        boxes = boxes[:, :, tf.newaxis, :] if len(boxes.shape) == 3 else boxes
        if not options.class_agnostic:
            return _finish(_suppress(boxes, scores, options, window), options, window)
        best_class = tf.argmax(scores, axis=-1, output_type=tf.int32)
        best_scores = tf.reduce_max(scores, axis=-1, keepdims=True)
        if boxes.shape[2] != 1:
            boxes = tf.gather(boxes, best_class, axis=2, batch_dims=2)[:, :, tf.newaxis, :]
        one_class = dataclasses.replace(options, max_detections_per_class=options.max_total_detections)
        result = _finish(_suppress(boxes, best_scores, one_class, window), one_class, window)
        classes = tf.gather(best_class, result.anchor_indices, batch_dims=1)
        filled = tf.sequence_mask(result.count, tf.shape(result.scores)[1])
        return result._replace(classes=tf.where(filled, classes, 0))


def _suppress(
    boxes: tf.Tensor, scores: tf.Tensor, options: NmsOptions, window: tf.Tensor | None
) -> _Candidates:
    if options.soft_nms_sigma:
        return one_by_one(boxes, scores, options)
    if scores.shape[2] == 1:
        return all_at_once(boxes, scores, options, window)
    return best_first(boxes, scores, options, window)


def best_first(
    boxes: tf.Tensor, scores: tf.Tensor, options: NmsOptions, window: tf.Tensor | None = None
) -> _Candidates:
    """Apply hard suppression to the best candidates of all classes, if these decide the result.

    Selection of a candidate depends only on those before it. So the survivors of the first candidates are a
    prefix of all survivors, and enough of them make the rest unnecessary. If an image with more candidates
    has too few survivors, the whole batch is suppressed with all candidates.

    Args:
        boxes: float32 [B, A, 1 or C, 4].
        scores: float32 [B, A, C].
        options: how to suppress.
        window: as in `multiclass_nms`; boxes outside are no detections.

    Returns:
        All survivors that can be among the detections.
    """
    most = max(LEADING_ANCHORS, LEADING_ANCHORS_A_DETECTION * options.max_total_detections)
    if scores.shape[1] is not None and scores.shape[1] <= most:
        return all_at_once(boxes, scores, options, window)
    leading = leading_candidates(scores, options.score_threshold, most, LEADING_CANDIDATES_AN_ANCHOR * most)
    found = _suppress_leading(boxes, leading, tf.shape(scores)[2], options)
    enough = _score_of_last_detection(found, options, window) > NO_CANDIDATE
    decided = tf.reduce_all(leading.complete | enough)
    return tf.cond(decided, lambda: found, lambda: all_at_once(boxes, scores, options, window))


def _suppress_leading(
    boxes: tf.Tensor, leading: Leading, classes: tf.Tensor, options: NmsOptions
) -> _Candidates:
    """Suppress with the kernel for all classes of a batch; the candidates' ranks serve as scores."""
    batch, number = tf.unstack(tf.shape(leading.places))
    size = tf.shape(leading.anchors)[1]
    rank = tf.where(leading.scores > NO_CANDIDATE, tf.cast(tf.range(number, 0, -1), tf.float32), 0.0)
    image = tf.range(batch)[:, tf.newaxis] * classes * size
    ranks = tf.scatter_nd(
        tf.reshape(image + leading.places, [-1, 1]), tf.reshape(rank, [-1]), [batch * classes * size]
    )
    chosen = tf.image.combined_non_max_suppression(
        tf.gather(boxes, leading.anchors, batch_dims=1),
        tf.transpose(tf.reshape(ranks, [batch, classes, size]), [0, 2, 1]),
        max_output_size_per_class=tf.minimum(options.max_detections_per_class, size),
        max_total_size=number,
        iou_threshold=options.iou_threshold,
        score_threshold=0.0,
        clip_boxes=False,
    )
    filled = chosen.nmsed_scores > 0.0
    index = tf.where(filled, number - tf.cast(chosen.nmsed_scores, tf.int32), 0)
    places = tf.gather(leading.places, index, batch_dims=1)
    return _Candidates(
        boxes=chosen.nmsed_boxes,
        scores=tf.where(filled, tf.gather(leading.scores, index, batch_dims=1), NO_CANDIDATE),
        classes=places // size,
        anchors=tf.gather(leading.anchors, places % size, batch_dims=1),
    )


def all_at_once(
    boxes: tf.Tensor, scores: tf.Tensor, options: NmsOptions, window: tf.Tensor | None = None
) -> _Candidates:
    """Apply hard suppression to the best candidates of each class, in all classes at once.

    The kernel for all classes of a batch orders ties arbitrarily. So candidates are sorted first, and their
    ranks serve as scores. Sorting all candidates would cost more than suppression, so only the best of each
    class are sorted. In the rare image where others could matter, `one_by_one` is used. Arguments and result
    are those of `best_first`.
    """
    anchors, most = tf.shape(scores)[1], max(SORTED_CANDIDATES, 2 * options.max_detections_per_class)
    size = tf.minimum(most, anchors)
    sorted_scores, sorted_anchors = _best_candidates(scores, options, size)
    found = _suppress_sorted(_boxes_of(boxes, sorted_anchors), sorted_scores, sorted_anchors, options)
    if scores.shape[1] is not None and scores.shape[1] <= most:
        return found
    last = sorted_scores[..., -1]
    per_class = tf.reshape(found.scores, tf.concat([tf.shape(last), [-1]], 0))
    full = per_class[..., -1] > NO_CANDIDATE
    too_low = last < _score_of_last_detection(found, options, window)[:, tf.newaxis]
    decided = (size == anchors) | tf.reduce_all(full | too_low | (last == NO_CANDIDATE))
    return tf.cond(decided, lambda: found, lambda: one_by_one(boxes, scores, options))


def _best_candidates(scores: tf.Tensor, options: NmsOptions, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the best candidates' scores and anchors, [B, C, size]; ties by lower anchor."""
    batch, anchors, classes = tf.unstack(tf.shape(scores))
    candidates = tf.where(scores > options.score_threshold, scores, NO_CANDIDATE)
    # Transposing a matrix takes a third of the time of a batch of matrices.
    by_class = tf.reshape(tf.transpose(tf.reshape(candidates, [-1, classes])), [classes, batch, anchors])
    found = tf.math.top_k(by_class, size)
    return tf.transpose(found.values, [1, 0, 2]), tf.transpose(found.indices, [1, 0, 2])


def _boxes_of(boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
    """Return the boxes of anchors [B, C, N], float32 [B, C, N, 4]; `boxes` is [B, A, 1 or C, 4]."""
    if boxes.shape[2] == 1:
        return tf.gather(boxes[:, :, 0], anchors, batch_dims=1)
    return tf.gather(tf.transpose(boxes, [0, 2, 1, 3]), anchors, batch_dims=2)


def _suppress_sorted(
    boxes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor, options: NmsOptions
) -> _Candidates:
    """Suppress in all classes of all images at once: boxes [B, C, N, 4], falling scores [B, C, N]."""
    batch, classes, size = tf.unstack(tf.shape(scores))
    limit = tf.minimum(options.max_detections_per_class, size)
    rank = tf.cast(tf.range(size, 0, -1), tf.float32)
    # The kernel treats each class as an image, so that results are grouped by class.
    chosen = tf.image.combined_non_max_suppression(
        tf.reshape(boxes, [-1, size, 1, 4]),
        tf.reshape(tf.where(scores > NO_CANDIDATE, rank, 0.0), [-1, size, 1]),
        max_output_size_per_class=limit,
        max_total_size=limit,
        iou_threshold=options.iou_threshold,
        score_threshold=0.0,
        clip_boxes=False,
    )
    filled = tf.sequence_mask(chosen.valid_detections, limit)
    index = tf.reshape(
        tf.where(filled, size - tf.cast(chosen.nmsed_scores, tf.int32), 0), [batch, classes, -1]
    )
    kept_scores = tf.reshape(tf.gather(scores, index, batch_dims=2), [batch * classes, -1])
    return _Candidates(
        boxes=tf.reshape(chosen.nmsed_boxes, [batch, -1, 4]),
        scores=tf.reshape(tf.where(filled, kept_scores, NO_CANDIDATE), [batch, -1]),
        classes=_class_of_row(batch, classes, limit),
        anchors=tf.reshape(tf.gather(anchors, index, batch_dims=2), [batch, -1]),
    )


def one_by_one(boxes: tf.Tensor, scores: tf.Tensor, options: NmsOptions) -> _Candidates:
    """Suppress each class of each image separately; supports soft suppression.

    Arguments are those of `best_first`; returns all survivors of every class.
    """
    batch, anchors, classes = tf.unstack(tf.shape(scores))
    limit = tf.minimum(options.max_detections_per_class, anchors)
    by_class = tf.transpose(boxes, [0, 2, 1, 3])
    flat_scores = tf.reshape(tf.transpose(scores, [0, 2, 1]), [-1, anchors])

    def suppress(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        image, label = row // classes, row % classes
        own = by_class[image, 0 if boxes.shape[2] == 1 else label]
        chosen, new_scores = tf.image.non_max_suppression_with_scores(
            own,
            flat_scores[row],
            limit,
            iou_threshold=options.iou_threshold,
            score_threshold=options.score_threshold,
            soft_nms_sigma=options.soft_nms_sigma,
        )
        padding = [[0, limit - tf.shape(chosen)[0]]]
        padded = tf.pad(chosen, padding)
        return tf.gather(own, padded), padded, tf.pad(new_scores, padding, constant_values=NO_CANDIDATE)

    specs = (
        tf.TensorSpec([None, 4], tf.float32),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None], tf.float32),
    )
    rows = tf.range(batch * classes)
    found_boxes, chosen, new_scores = tf.map_fn(suppress, rows, fn_output_signature=specs)
    return _Candidates(
        boxes=tf.reshape(found_boxes, [batch, -1, 4]),
        scores=tf.reshape(new_scores, [batch, -1]),
        classes=_class_of_row(batch, classes, limit),
        anchors=tf.reshape(chosen, [batch, -1]),
    )


def _class_of_row(batch: tf.Tensor, classes: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    return tf.tile(tf.repeat(tf.range(classes), limit)[tf.newaxis], [batch, 1])


def _ranking(candidates: _Candidates, window: tf.Tensor | None) -> tf.Tensor:
    """Return the scores, float32 [B, C * K], NO_CANDIDATE for boxes without area in the window."""
    if window is None:
        return candidates.scores
    shown = box_ops.clip(candidates.boxes, window[:, tf.newaxis, :])
    return tf.where(box_ops.area(shown) > 0.0, candidates.scores, NO_CANDIDATE)


def _score_of_last_detection(
    candidates: _Candidates, options: NmsOptions, window: tf.Tensor | None
) -> tf.Tensor:
    """Return float32 [B], the score that other candidates must exceed; NO_CANDIDATE if rows are empty."""
    ranking = _ranking(candidates, window)
    limit = options.max_total_detections
    padded = tf.pad(ranking, [[0, 0], [0, limit]], constant_values=NO_CANDIDATE)
    return tf.math.top_k(padded, limit).values[:, -1]


def _finish(candidates: _Candidates, options: NmsOptions, window: tf.Tensor | None) -> NmsResult:
    """Clip, drop boxes without area, keep the best of all classes and pad."""
    shown, ranking = candidates.boxes, _ranking(candidates, window)
    if window is not None:
        shown = box_ops.clip(shown, window[:, tf.newaxis, :])
        if options.change_coordinate_frame:
            shown = box_ops.change_frame(shown, window[:, tf.newaxis, :])
    limit = options.max_total_detections
    missing = tf.maximum(limit - tf.shape(ranking)[1], 0)
    # For ties, top_k takes the first: the lower class, and within it the box taken earlier.
    kept_scores, kept = tf.math.top_k(ranking, tf.minimum(limit, tf.shape(ranking)[1]))
    filled = kept_scores > NO_CANDIDATE

    def pad(values: tf.Tensor) -> tf.Tensor:
        mask = filled[..., tf.newaxis] if len(values.shape) == 3 else filled
        cleared = tf.where(mask, values, tf.zeros_like(values))
        padded = tf.pad(cleared, [[0, 0], [0, missing]] + [[0, 0]] * (len(values.shape) - 2))
        return tf.ensure_shape(padded, [values.shape[0], limit, *values.shape[2:]])

    return NmsResult(
        boxes=pad(tf.gather(shown, kept, batch_dims=1)),
        scores=pad(kept_scores),
        classes=pad(tf.gather(candidates.classes, kept, batch_dims=1)),
        count=tf.reduce_sum(tf.cast(filled, tf.int32), axis=1),
        anchor_indices=pad(tf.gather(candidates.anchors, kept, batch_dims=1)),
    )
