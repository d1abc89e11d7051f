"""TensorFlow Lite's detection post-processing operation, as the converter knows it, and what it takes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from detection_core.allowed_values import NOT_NEGATIVE, POSITIVE, POSITIVE_FRACTION, Range
from detection_core.config.messages.tflite import OPERATION
from detection_core.detectors.family import Normalisation
from detection_core.errors import ExportError

# Next to 1 in float32: a factor of 1 would be folded away.
KEEPS_FLOAT = 1.0 + 2.0**-23
_COUNT = Range(1, math.inf, "1 or more")
_SCALE = (POSITIVE, "the box coder's scales")
# What LiteRT's kernel takes (tensorflow/lite/kernels/detection_postprocess.cc, whose errors name no field),
# and what sets it.
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
    """What a file gives, D rows by falling score.

    Attributes:
        boxes: float32 [1, D, 4], ymin, xmin, ymax, xmax, normalised, not clipped.
        classes: float32 [1, D], from 0.
        scores: float32 [1, D].
        count: float32 [1], how many rows are detections.
    """

    boxes: tf.Tensor
    classes: tf.Tensor
    scores: tf.Tensor
    count: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class PostProcessOptions:
    """Attributes of the operation; box codes are divided by the scales.

    An attribute that the operation does not take raises ExportError.

    Attributes:
        max_detections: boxes that it keeps, and rows of the file's outputs.
        max_classes_per_detection: classes that one box may be reported with, one row each, where
            use_regular_nms is off.
        detections_per_class: boxes that are kept of a class, where use_regular_nms is on. The converter does
            not hand it on, and the operation then keeps up to 100.
        use_regular_nms: suppress class by class; off: boxes of all classes suppress each other, which is
            faster. With several threads LiteRT's kernel loses a class where this is on and there are more
            than two: `tflite_forms.suppression_function`.
        nms_score_threshold: least score; minus infinity: every box is kept.
        nms_iou_threshold: overlap from which the box with the lower score goes.
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
        """Number of rows that the operation itself has."""
        return self.max_detections * (1 if self.use_regular_nms else self.max_classes_per_detection)

    @property
    def scales(self) -> tuple[float, float, float, float]:
        """The box coder's, of y, x, height and width."""
        return self.y_scale, self.x_scale, self.h_scale, self.w_scale

    def attribute_text(self) -> str:
        """Return the text by which the converter knows the operation and its attributes."""
        kinds: dict[type, str] = {bool: "b: {}", int: "i: {}", float: "f: {:f}"}
        lines = [f'name: "{OPERATION}"']
        for field in dataclasses.fields(self):
            if field.name == "detections_per_class":
                continue  # The kernel knows it, the converter does not.
            value = getattr(self, field.name)
            text = kinds[type(value)].format(str(value).lower() if isinstance(value, bool) else value)
            lines.append(f'attr {{ key: "{field.name}" value {{ {text} }} }}')
        return " ".join(lines)


def post_process_function(options: PostProcessOptions) -> Callable[..., PostProcessed]:
    """Make a function that the converter replaces by the operation.

    Args:
        options: the operation's attributes.

    Returns:
        (box codes [1, A, 4], scores [1, A, C] or, with the background first, [1, A, C + 1], anchors [A, 4] as
        y, x, h, w) -> `PostProcessed`. Run by TensorFlow itself it gives zeros: it only stands for the
        operation in the graph that is converted.
    """
    rows = options.rows

    @tf.function(experimental_implements=options.attribute_text(), autograph=False)
    def operation(box_codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        shapes = {"boxes": [1, rows, 4], "classes": [1, rows], "scores": [1, rows], "count": [1]}
        return tuple(tf.zeros(shape, name=name) for name, shape in shapes.items())

    def post_process(box_codes: tf.Tensor, scores: tf.Tensor, anchors: tf.Tensor) -> PostProcessed:
        # NNAPI's operation takes the background's column always; LiteRT's looks at neither.
        missing = options.num_classes + 1 - scores.shape[2]
        if missing:
            scores = tf.pad(scores, [[0, 0], [0, 0], [missing, 0]])
        found = PostProcessed(*operation(box_codes, scores, anchors))
        return found if rows == options.max_detections else _best_rows(found, options)

    return post_process


def _best_rows(found: PostProcessed, options: PostProcessOptions) -> PostProcessed:
    """Sort the rows of all classes of all boxes by score and keep as many as there are to be detections.

    The operation lists box by box, counts boxes instead of rows and leaves what is behind them unwritten.
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
    """Turn (ymin, xmin, ymax, xmax) into (y, x, height, width) of the centre: the operation's anchors."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return tf.concat([(low + high) / 2, high - low], -1)


def kept_in_float(values: tf.Tensor) -> tf.Tensor:
    """Keep what follows an integer network's logits, or its scores, out of it.

    Without an operation in between the converter takes the score conversion for a part of the integer
    network, and 256 scores are too few to rank detections by. A sigmoid's range is known to it: before what
    only moves numbers (PAD, RESHAPE, GATHER, maxima) it makes the scores int8 again, so that these need one
    as well.
    """
    return values * KEEPS_FLOAT


def normalisation_of(preprocess: Callable[[tf.Tensor], tf.Tensor]) -> Normalisation:
    """Return mean and std of each channel with which (pixel - mean) / std is a preprocessing.

    They are rounded to the digits that float32 tells apart here, so that channels that are treated alike have
    equal numbers.
    """
    low, high = (preprocess(tf.fill([1, 1, 1, 3], level)).numpy().ravel() for level in (0.0, 255.0))
    std = 255.0 / (high - low)
    return _rounded(-low * std), _rounded(std)


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)
