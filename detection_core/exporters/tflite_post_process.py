"""TensorFlow Lite's detection post-processing operation, as the converter recognises it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from detection_core.allowed_values import NOT_NEGATIVE, POSITIVE, POSITIVE_FRACTION, Range
from detection_core.config.messages.detector_parts import OPERATION
from detection_core.detectors.family import Normalisation
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
            `tflite_forms.suppression_function`.
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


def normalisation_of(preprocess: Callable[[tf.Tensor], tf.Tensor]) -> Normalisation:
    """Return the mean and std per channel for which a preprocessing is (pixel - mean) / std.

    They are rounded to float32's precision here, so that equally treated channels have equal numbers.
    """
    low, high = (preprocess(tf.fill([1, 1, 1, 3], level)).numpy().ravel() for level in (0.0, 255.0))
    std = 255.0 / (high - low)
    return _rounded(-low * std), _rounded(std)


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)
