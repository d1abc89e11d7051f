"""Output layouts of TensorFlow Lite files, and post-processing in built-in operations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from detection_core.allowed_values import TFLITE_FORMS
from detection_core.exporters.tflite_post_process import (
    PostProcessed,
    PostProcessOptions,
    kept_in_float,
    post_process_function,
)

# Pairs of box and class, best first, for class-by-class suppression: as many as google/automl's
# EfficientDet (MAX_DETECTION_POINTS). All pairs of a large network, a million, take longer than the network.
CANDIDATES = 5000
# Boxes are clipped this far outside of the image; the next class is placed behind that.
REACH = 2.0
STRIDE = 2 * REACH + 2


def plain_post_process(options: PostProcessOptions) -> Callable[..., PostProcessed]:
    """Make a function of built-in operations, which also runs in TensorFlow.

    Its results equal those of TFLite_Detection_PostProcess with the same attributes. It is needed for
    class-by-class suppression with more than two classes. With T > 1 threads LiteRT's kernel of that
    operation skips class T. This holds for 2.3, and for TensorFlow Lite since the kernel has threads. Its
    threads start with classes 0 to T - 1. The counter of the next class starts at T but is incremented before
    it is read. `ops.nms` cannot be used here: LiteRT lacks its kernel for all classes, branches and loops.

    Returns:
        (box codes [1, A, 4], scores [1, A, C] or, with the background first, [1, A, C + 1], anchors [A, 4] as
        y, x, h, w) -> `PostProcessed`. Rows after the count are zeros.
    """
    suppress = _class_by_class if options.use_regular_nms else _across_classes

    def post_process(box_codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor) -> PostProcessed:
        foreground = scores[0, :, scores.shape[2] - options.num_classes :]
        return suppress(decoded(box_codes[0], anchors, options), foreground, options)

    return post_process


def decoded(box_codes: tf.Tensor, anchors: tf.Tensor, options: PostProcessOptions) -> tf.Tensor:
    """Decode boxes.

    Args:
        box_codes: float32 [A, 4], ty, tx, th, tw.
        anchors: float32 [A, 4], y, x, height, width.
        options: with the box coder's scales.

    Returns:
        float32 [A, 4]: ymin, xmin, ymax, xmax.
    """
    # One multiplication first, which dequantizes the codes of an integer network.
    codes = box_codes * tf.constant([1 / scale for scale in options.scales], tf.float32)
    centres = codes[:, :2] * anchors[:, 2:] + anchors[:, :2]
    halves = tf.exp(codes[:, 2:]) * (anchors[:, 2:] / 2)
    return tf.concat([centres - halves, centres + halves], axis=1)


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
    if per_class >= rows:
        kept, count = _suppressed(apart, best, rows, options)
    else:
        kept, count = _suppressed(apart, best, candidates, options)
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


def _across_classes(boxes: tf.Tensor, scores: tf.Tensor, options: PostProcessOptions) -> PostProcessed:
    """Suppress boxes of all classes by their best scores; each kept box reports its best classes."""
    kept, count = _suppressed(boxes, tf.reduce_max(scores, axis=1), options.max_detections, options)
    each = options.max_classes_per_detection
    best, classes = tf.math.top_k(tf.gather(scores, kept), each)
    there = tf.range(options.max_detections) < count
    best = tf.reshape(tf.where(there[:, tf.newaxis], best, -1.0), [-1])
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
    boxes: tf.Tensor, scores: tf.Tensor, rows: int, options: PostProcessOptions
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the indices of the kept boxes, int32 [rows], and their number, int32 [].

    TFLite_Detection_PostProcess keeps scores >= its threshold and overlaps <= its threshold.
    NON_MAX_SUPPRESSION_V4 compares strictly, so the next floats are used.
    """
    least = np.nextafter(np.float32(options.nms_score_threshold), np.float32(-np.inf))
    overlap = np.nextafter(np.float32(options.nms_iou_threshold), np.float32(1))
    kept, count = tf.raw_ops.NonMaxSuppressionV4(
        boxes=boxes,
        scores=scores,
        max_output_size=rows,
        iou_threshold=overlap,
        score_threshold=least,
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


# LiteRT's kernel drops class T when it runs with T > 1 threads; with two classes or fewer it drops none.
CLASSES_OF_THREADS = 2
# Boxes that the kernel keeps per class, because the converter drops the attribute.
KERNEL_DETECTIONS_PER_CLASS = 100

Outputs = tuple[tf.Tensor, ...] | dict[str, tf.Tensor]
Heads = Callable[[tf.Tensor, tf.Tensor], Outputs]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """Meaning of a network's heads.

    Attributes:
        post_process: box coding and suppression.
        anchors: float32 [A, 4], y, x, height, width.
        to_scores: class logits, [1, A, C] or, with the background first, [1, A, C + 1] -> scores of the same
            shape.
        sigmoid: whether the scores are exactly the logits' sigmoids.
        integer: whether the network's outputs will be integers.
    """

    post_process: PostProcessOptions
    anchors: tf.Tensor
    to_scores: Callable[[tf.Tensor], tf.Tensor]
    sigmoid: bool
    integer: bool


def suppression_function(options: PostProcessOptions) -> Callable[..., PostProcessed]:
    """Make a post-processing function whose results do not depend on the number of threads.

    Returns:
        (box codes [1, A, 4], scores [1, A, C] or, with the background first, [1, A, C + 1], anchors [A, 4] as
        y, x, h, w) -> `PostProcessed`. It uses the operation, or built-in ones if the operation's results
        would differ.
    """
    return post_process_function(options) if _kernel_is_right(options) else plain_post_process(options)


def _kernel_is_right(options: PostProcessOptions) -> bool:
    if not options.use_regular_nms:
        return True
    kept, by_kernel = (
        min(each, options.max_detections)
        for each in (options.detections_per_class, KERNEL_DETECTIONS_PER_CLASS)
    )
    return options.num_classes <= CLASSES_OF_THREADS and kept == by_kernel


def heads_function(form: str, options: HeadOptions) -> Heads:
    """Make a function from a network's heads to a file's outputs.

    Args:
        form: of `allowed_values.TFLITE_FORMS`.
        options: meaning of the heads.

    Returns:
        (box codes [1, A, 4], class logits [1, A, C] or [1, A, C + 1]) -> count, scores, classes, boxes;
        without post-processing, the outputs by name.
    """
    return _FORMS[form](options)


def _scores(logits: tf.Tensor, options: HeadOptions, *, moved: bool) -> tf.Tensor:
    """Convert logits to scores, which stay float in an integer file.

    Set `moved` if only operations that move values follow, such as PAD; post-processing itself takes only
    floats.
    """
    if not options.integer:
        return options.to_scores(logits)
    scores = options.to_scores(kept_in_float(logits))
    return kept_in_float(scores) if moved else scores


def _post_processed(
    make: Callable[[PostProcessOptions], Callable[..., PostProcessed]],
    by_kernel: Callable[[PostProcessOptions], bool],
) -> Callable[..., Heads]:
    def of(options: HeadOptions) -> Heads:
        post_process = make(options.post_process)
        is_kernel, classes = by_kernel(options.post_process), options.post_process.num_classes

        def give(box_codes: tf.Tensor, logits: tf.Tensor) -> Outputs:
            scores = _scores(logits, options, moved=not is_kernel or logits.shape[2] == classes)
            found = post_process(box_codes, scores, options.anchors)
            return found.count, found.scores, found.classes, found.boxes

        return give

    return of


def _headless(options: HeadOptions) -> Heads:
    """Return codes and scores of every anchor; the whole file may run on an accelerator."""
    classes = options.post_process.num_classes

    def give(box_codes: tf.Tensor, logits: tf.Tensor) -> Outputs:
        # The consumer applies the sigmoid.
        scores = logits if options.sigmoid else _scores(logits, options, moved=True)
        return {"location": tf.identity(box_codes), "score": scores[:, :, scores.shape[2] - classes :]}

    return give


_FORMS: Mapping[str, Callable[[HeadOptions], Heads]] = dict(
    zip(
        TFLITE_FORMS,
        (
            _post_processed(suppression_function, _kernel_is_right),
            _post_processed(plain_post_process, lambda _: False),
            _headless,
        ),
        strict=True,
    )
)
