"""TFLite_Detection_PostProcess as a function of built-in operations."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from detection_core.ops.post_process_options import PostProcessOptions


class PostProcessed(NamedTuple):
    """Outputs of a file, D rows by descending score.

    Attributes:
        boxes: float32 [1, D, 4], ymin, xmin, ymax, xmax, normalised, not clipped.
        classes: float32 [1, D], from 0.
        scores: float32 [1, D].
        count: float32 [1], number of rows that are detections.
    """

    boxes: tf.Tensor
    classes: tf.Tensor
    scores: tf.Tensor
    count: tf.Tensor


# Pairs of box and class, best first, for class-by-class suppression: as many as google/automl's
# EfficientDet (MAX_DETECTION_POINTS). All pairs of a large network, a million, take longer than the network.
CANDIDATES = 5000
# Boxes are clipped this far outside of the image; the next class is placed behind that.
REACH = 2.0
STRIDE = 2 * REACH + 2


Keep = Callable[[tf.Tensor], tf.Tensor]


def plain_post_process(options: PostProcessOptions, keep: Keep | None = None) -> Callable[..., PostProcessed]:
    """Make a function of built-in operations, which also runs in TensorFlow.

    Its results equal those of TFLite_Detection_PostProcess with the same attributes. It is needed for
    class-by-class suppression with more than two classes. With T > 1 threads LiteRT's kernel of that
    operation skips class T. This holds for 2.3, and for TensorFlow Lite since the kernel has threads. Its
    threads start with classes 0 to T - 1. The counter of the next class starts at T but is incremented before
    it is read. `ops.nms` cannot be used here: LiteRT lacks its kernel for all classes, branches and loops.

    With `keep`, scores are sigmoids, and the function takes their logits. A sigmoid keeps the order, so only
    those of kept boxes are converted. `keep` comes before all operations but maxima and gathering. Boxes of
    all classes then suppress each other.

    Returns:
        (box codes [1, A, 4], scores [1, A, C] or, with the background first, [1, A, C + 1], anchors [A, 4] as
        y, x, h, w) -> `PostProcessed`. Rows after the count are zeros.
    """
    least = options.nms_score_threshold
    if keep:
        least = math.log(least / (1 - least)) if 0 < least < 1 else math.copysign(math.inf, least - 0.5)

    def post_process(box_codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor) -> PostProcessed:
        given = tf.reshape(foreground(scores, options.num_classes), [-1, options.num_classes])
        boxes = tf.reshape(decoded(box_codes, anchors, options), [-1, 4])
        if options.use_regular_nms:
            return _class_by_class(boxes, given, options)
        found = _across_classes(boxes, given, options, least, keep or (lambda scores: scores))
        if not keep:
            return found
        there = tf.cast(tf.range(options.max_detections, dtype=tf.float32) < found.count, tf.float32)
        return found._replace(scores=tf.sigmoid(found.scores) * there)

    return post_process


def foreground(scores: tf.Tensor, classes: int) -> tf.Tensor:
    """Return the last `classes` columns of float32 [1, A, C].

    XNNPACK has `slice`. An index becomes a strided slice of LiteRT's own, which took longer than suppression.
    """
    background = scores.shape[2] - classes
    return tf.slice(scores, [0, 0, background], [1, -1, classes]) if background else scores


def decoded(box_codes: tf.Tensor, anchors: tf.Tensor, options: PostProcessOptions) -> tf.Tensor:
    """Decode float32 [..., A, 4] codes ty, tx, th, tw at anchors [A, 4] to ymin, xmin, ymax, xmax.

    Halves come from a split, which XNNPACK has, as in `foreground`.
    """
    # One multiplication first, which dequantizes the codes of an integer network.
    codes = box_codes * tf.constant([1 / scale for scale in options.scales], tf.float32)
    shifts, sizes = tf.split(codes, 2, axis=-1)
    centres = shifts * anchors[:, 2:] + anchors[:, :2]
    halves = tf.exp(sizes) * (anchors[:, 2:] / 2)
    return tf.concat([centres - halves, centres + halves], axis=-1)


def _class_by_class(boxes: tf.Tensor, scores: tf.Tensor, options: PostProcessOptions) -> PostProcessed:
    """Suppress class by class: shift the boxes of each class to a separate area."""
    classes = options.num_classes
    candidates = min(CANDIDATES, scores.shape[0] * classes)
    best, pairs = tf.math.top_k(tf.reshape(scores, [-1]), candidates)
    of_class, of_box = pairs % classes, pairs // classes
    found = tf.gather(boxes, of_box)
    # Areas form a square, because numbers far from 0 have few digits left for small boxes.
    side = math.isqrt(classes - 1) + 1
    place = tf.cast(tf.stack([of_class // side, of_class % side] * 2, axis=1), tf.float32)
    apart = tf.clip_by_value(found, -REACH, 1 + REACH) + place * STRIDE
    rows, per_class = options.max_detections, options.detections_per_class
    kept_boxes = rows if per_class >= rows else candidates
    kept, count = _suppressed(apart, best, kept_boxes, options, options.nms_score_threshold)
    if per_class < rows:
        kept, count = _first_of_each_class(kept, count, tf.gather(of_class, kept), options)
    return _rows(found, tf.cast(of_class, tf.float32), best, (kept, count))


def _first_of_each_class(
    kept: tf.Tensor, count: tf.Tensor, classes: tf.Tensor, options: PostProcessOptions
) -> tuple[tf.Tensor, tf.Tensor]:
    """Keep the first of each class, and of all, up to both limits: int32 [D] indices and int32 [] count.

    `kept` are the candidates' indices, int32 [N], by descending score; the first `count` are valid.
    """
    places = tf.range(kept.shape[0])
    rank = tf.reduce_sum(
        tf.cumsum(tf.one_hot(classes, options.num_classes)) * tf.one_hot(classes, options.num_classes), axis=1
    )
    stays = tf.logical_and(places < count, rank <= float(options.detections_per_class))
    order = tf.where(stays, -tf.cast(places, tf.float32), -float(kept.shape[0]))
    _, first = tf.math.top_k(order, min(options.max_detections, kept.shape[0]))
    found = tf.reduce_sum(tf.cast(stays, tf.float32))
    first = tf.pad(first, [[0, options.max_detections - first.shape[0]]])
    return tf.gather(kept, first), tf.cast(tf.minimum(found, float(options.max_detections)), tf.int32)


def _across_classes(
    boxes: tf.Tensor, scores: tf.Tensor, options: PostProcessOptions, least: float, keep: Keep
) -> PostProcessed:
    """Suppress boxes of all classes by their best scores; each kept box reports its best classes."""
    best = keep(tf.reduce_max(scores, axis=1))
    kept, count = _suppressed(boxes, best, options.max_detections, options, least)
    each = options.max_classes_per_detection
    best, classes = tf.math.top_k(keep(tf.gather(scores, kept)), each)
    there = tf.range(options.max_detections) < count
    best = tf.reshape(tf.where(there[:, tf.newaxis], best, best.dtype.min), [-1])
    _, order = tf.math.top_k(best, options.max_detections)
    of_box = tf.gather(kept, order // each)
    filled = tf.minimum(count * each, options.max_detections)
    return _rows(
        tf.gather(boxes, of_box),
        tf.gather(tf.reshape(tf.cast(classes, tf.float32), [-1]), order),
        tf.gather(best, order),
        (tf.range(options.max_detections), filled),
    )


def _suppressed(
    boxes: tf.Tensor, scores: tf.Tensor, rows: int, options: PostProcessOptions, least: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the indices of the kept boxes, int32 [rows], and their number, int32 [].

    TFLite_Detection_PostProcess keeps scores >= its threshold and overlaps <= its threshold.
    NON_MAX_SUPPRESSION_V4 compares strictly, so the next floats are used.
    """
    overlap = np.nextafter(np.float32(options.nms_iou_threshold), np.float32(1))
    kept, count = tf.raw_ops.NonMaxSuppressionV4(
        boxes=boxes,
        scores=scores,
        max_output_size=rows,
        iou_threshold=overlap,
        score_threshold=np.nextafter(np.float32(least), np.float32(-np.inf)),
        pad_to_max_output_size=True,
    )
    return tf.ensure_shape(kept, [rows]), count


def _rows(
    boxes: tf.Tensor, classes: tf.Tensor, scores: tf.Tensor, kept: tuple[tf.Tensor, tf.Tensor]
) -> PostProcessed:
    """Gather the kept rows, and zero those after the count."""
    places, count = kept
    there = tf.cast(tf.range(places.shape[0]) < count, tf.float32)
    return PostProcessed(
        boxes=(tf.gather(boxes, places) * there[:, tf.newaxis])[tf.newaxis],
        classes=(tf.gather(classes, places) * there)[tf.newaxis],
        scores=(tf.gather(scores, places) * there)[tf.newaxis],
        count=tf.cast(tf.reshape(count, [1]), tf.float32),
    )
