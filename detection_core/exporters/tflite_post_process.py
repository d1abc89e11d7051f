"""Post-processing in TensorFlow Lite files: one operation that the converter recognises, or built-in ones."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from detection_core.allowed_values import NOT_NEGATIVE, POSITIVE, POSITIVE_FRACTION, Range
from detection_core.config.messages.detector_parts import OPERATION
from detection_core.errors import ExportError

# The float32 next to 1: a factor of 1 would be folded.
KEEPS_FLOAT = 1.0 + 2.0**-23
_COUNT = Range(1, math.inf, "1 or more")
_SCALE = (POSITIVE, "the box coder's scales")
# Ranges of LiteRT's kernel (tensorflow/lite/kernels/detection_postprocess.cc, whose errors name no field),
# and the setting behind each attribute.
_ATTRIBUTES: Mapping[str, tuple[Range, str]] = {
    "max_detections": (_COUNT, "export.max_detections"),
    "max_classes_per_detection": (_COUNT, "classes_per_detection"),
    "detections_per_class": (_COUNT, "max_detections_per_class of the config's suppression"),
    "nms_score_threshold": (NOT_NEGATIVE, "the score threshold of the config's suppression"),
    "nms_iou_threshold": (POSITIVE_FRACTION, "the IoU threshold of the config's suppression"),
    "num_classes": (_COUNT, "the config's num_classes"),
    "y_scale": _SCALE,
    "x_scale": _SCALE,
    "h_scale": _SCALE,
    "w_scale": _SCALE,
}


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class PostProcessOptions:
    """Attributes of the operation; box codes are divided by the scales.

    A value that the operation does not accept raises ExportError.

    Attributes:
        max_detections: boxes that it keeps, and rows of the file's outputs.
        max_classes_per_detection: classes reported per box, one row each, if use_regular_nms is off.
        detections_per_class: boxes kept per class, if use_regular_nms is on. The converter drops it, and the
            operation then keeps up to 100.
        use_regular_nms: suppress class by class. Off: boxes of all classes suppress each other, which is
            faster. If on, LiteRT's kernel drops a class with several threads and more than two classes:
            `suppression_function`.
        nms_score_threshold: least score; minus infinity: every box is kept.
        nms_iou_threshold: overlap from which the box with the lower score is removed.
        num_classes: without background.
        y_scale: of the box coder.
        x_scale: of the box coder.
        h_scale: of the box coder.
        w_scale: of the box coder.
    """

    max_detections: int
    max_classes_per_detection: int = 1
    detections_per_class: int = 100
    use_regular_nms: bool = False
    nms_score_threshold: float
    nms_iou_threshold: float
    num_classes: int
    y_scale: float
    x_scale: float
    h_scale: float
    w_scale: float

    def __post_init__(self) -> None:
        for name, (allowed, source) in _ATTRIBUTES.items():
            value = getattr(self, name)
            every_box = name == "nms_score_threshold" and value == -math.inf
            if not (allowed.holds(value) and math.isfinite(value)) and not every_box:
                raise ExportError(
                    f"expected {allowed.text}, found {value:g}; change {source}", where=f"{OPERATION}.{name}"
                )

    @property
    def rows(self) -> int:
        """Number of rows of the operation itself."""
        return self.max_detections * (1 if self.use_regular_nms else self.max_classes_per_detection)

    @property
    def scales(self) -> tuple[float, float, float, float]:
        """The box coder's scales of y, x, height and width."""
        return self.y_scale, self.x_scale, self.h_scale, self.w_scale

    def attribute_text(self) -> str:
        """Return the text by which the converter recognises the operation and its attributes."""
        kinds: dict[type, str] = {bool: "b: {}", int: "i: {}", float: "f: {:f}"}
        lines = [f'name: "{OPERATION}"']
        for field in dataclasses.fields(self):
            if field.name == "detections_per_class":
                continue  # in the kernel, but unknown to the converter
            value = getattr(self, field.name)
            text = kinds[type(value)].format(str(value).lower() if isinstance(value, bool) else value)
            lines.append(f'attr {{ key: "{field.name}" value {{ {text} }} }}')
        return " ".join(lines)


def post_process_function(options: PostProcessOptions) -> Callable[..., PostProcessed]:
    """Make a function that the converter replaces by the operation.

    Returns:
        (box codes [1, A, 4], scores [1, A, C] or, with the background first, [1, A, C + 1], anchors [A, 4] as
        y, x, h, w) -> `PostProcessed`. In TensorFlow it returns zeros: it is only a placeholder for the
        converter.
    """
    rows = options.rows

    @tf.function(experimental_implements=options.attribute_text(), autograph=False)
    def operation(box_codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        shapes = {"boxes": [1, rows, 4], "classes": [1, rows], "scores": [1, rows], "count": [1]}
        return tuple(tf.zeros(shape, name=name) for name, shape in shapes.items())

    def post_process(box_codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor) -> PostProcessed:
        # NNAPI's operation always takes the background's column; LiteRT's ignores it.
        missing = options.num_classes + 1 - scores.shape[2]
        if missing:
            scores = tf.pad(scores, [[0, 0], [0, 0], [missing, 0]])
        found = PostProcessed(*operation(box_codes, scores, anchors))
        return found if rows == options.max_detections else _best_rows(found, options)

    return post_process


def _best_rows(found: PostProcessed, options: PostProcessOptions) -> PostProcessed:
    """Sort the rows of all boxes by score and keep `max_detections`.

    The operation lists rows by box, counts boxes instead of rows, and leaves the remaining rows unwritten.
    """
    filled = found.count * float(options.rows // options.max_detections)
    written = tf.range(options.rows, dtype=tf.float32)[tf.newaxis] < filled[:, tf.newaxis]
    scores, order = tf.math.top_k(tf.where(written, found.scores, 0.0), options.max_detections)
    return PostProcessed(
        boxes=tf.gather(found.boxes[0], order[0])[tf.newaxis],
        classes=tf.gather(found.classes[0], order[0])[tf.newaxis],
        scores=scores,
        count=tf.minimum(filled, float(options.max_detections)),
    )


def centred(boxes: tf.Tensor) -> tf.Tensor:
    """Convert (ymin, xmin, ymax, xmax) to (y, x, height, width) with the centre: the operation's anchors."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return tf.concat([(low + high) / 2, high - low], -1)


def kept_in_float(values: tf.Tensor) -> tf.Tensor:
    """Keep the operations after an integer network's logits, or after its scores, in float.

    Without an operation in between, the converter quantizes the score conversion. But 256 scores are too few
    to rank detections. It also knows a sigmoid's range: before operations that only move values (PAD,
    RESHAPE, GATHER, maxima) it quantizes scores again. So these need an operation, too.
    """
    return values * KEEPS_FLOAT


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
    """Decode float32 [A, 4] codes ty, tx, th, tw at anchors y, x, height, width to ymin, xmin, ymax, xmax."""
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


def suppression_function(options: PostProcessOptions) -> Callable[..., PostProcessed]:
    """Make a function like `post_process_function`, whose results do not depend on the number of threads.

    It uses the operation, or built-in ones if the operation's results would differ.
    """
    return post_process_function(options) if kernel_is_right(options) else plain_post_process(options)


def kernel_is_right(options: PostProcessOptions) -> bool:
    """Return whether the operation's results do not depend on threads, and keep the attributes."""
    if not options.use_regular_nms:
        return True
    kept, by_kernel = (
        min(each, options.max_detections)
        for each in (options.detections_per_class, KERNEL_DETECTIONS_PER_CLASS)
    )
    return options.num_classes <= CLASSES_OF_THREADS and kept == by_kernel
