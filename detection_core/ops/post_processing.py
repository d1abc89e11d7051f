"""Score conversion and calibration of raw predictions."""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf

from detection_core.ops.nms import NmsOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class PiecewiseLinear:
    """Linear between points of rising scores and calibrated scores; constant beyond the ends."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __call__(self, scores: tf.Tensor) -> tf.Tensor:
        """Calibrate scores, float32 [...]."""
        x, y = tf.constant(self.x, scores.dtype), tf.constant(self.y, scores.dtype)
        if len(self.x) == 1:
            return tf.fill(tf.shape(scores), y[0])
        position = tf.searchsorted(x, tf.reshape(scores, [-1]), side="right")
        right = tf.reshape(tf.clip_by_value(position, 1, len(self.x) - 1), tf.shape(scores))
        x_left, y_left = tf.gather(x, right - 1), tf.gather(y, right - 1)
        slope = tf.math.divide_no_nan(tf.gather(y, right) - y_left, tf.gather(x, right) - x_left)
        between = y_left + (scores - x_left) * slope
        return tf.where(scores < x[0], y[0], tf.where(scores > x[-1], y[-1], between))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PerClass:
    """A calibration for some indices of the scores' last axis; the others keep their scores."""

    functions: Mapping[int, PiecewiseLinear]

    def __call__(self, scores: tf.Tensor) -> tf.Tensor:
        """Calibrate scores, float32 [..., K]."""
        columns = tf.unstack(scores, axis=-1)
        mapped = [self.functions[k](c) if k in self.functions else c for k, c in enumerate(columns)]
        return tf.stack(mapped, axis=-1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Temperature:
    """Divides logits by a temperature before the activation.

    Guo et al., "On Calibration of Modern Neural Networks", 2017, https://arxiv.org/abs/1706.04599.

    Attributes:
        scaler: the temperature, above 0; above 1 makes a model less confident.
    """

    scaler: float

    def __call__(self, logits: tf.Tensor) -> tf.Tensor:
        """Scale logits, float32 [...]."""
        return logits / self.scaler


Elementwise = Callable[[tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreConverter:
    """Converts class logits to scores: prepare, scale, activate, calibrate.

    Attributes:
        activation: logits to scores, over the last axis where classes compete.
        logit_scale: divisor of the logits.
        prepare: applied to the logits first; None: nothing.
        calibrate: applied to the scores; None: nothing.
    """

    activation: Elementwise
    logit_scale: float = 1.0
    prepare: Elementwise | None = None
    calibrate: Elementwise | None = None

    def __call__(self, logits: tf.Tensor) -> tf.Tensor:
        """Convert logits, float32 [B, A, C + 1], with the background if the model has one, to scores."""
        if self.prepare is not None:
            logits = self.prepare(logits)
        scores = self.activation(logits / self.logit_scale)
        return scores if self.calibrate is None else self.calibrate(scores)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PostProcessing:
    """How raw predictions become detections: class logits to scores, then non-maximum suppression."""

    score_converter: ScoreConverter
    nms: NmsOptions
