"""Losses of classes and boxes, their protocols, and the losses of an anchor-based detector."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Protocol, runtime_checkable

import tensorflow as tf

from detection_core.parts.samplers import BalancedSampler, HardExampleMiner


class ClassificationLoss(Protocol):
    """Compares class logits with class targets."""

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor.

        Args:
            prediction: float32 [B, A, K], logits; K is C or C + 1.
            target: float32 [B, A, K], in [0, 1] where the loss does not say otherwise.
            weights: float32 [B, A, 1] or [B, A, K].

        Returns:
            float32 [B, A, K] where classes are independent, [B, A] where they compete.
        """


@runtime_checkable
class ColumnLoss(Protocol):
    """A classification loss with a faster form for targets that are 0 except for at most one 1 per anchor."""

    def of_columns(self, prediction: tf.Tensor, columns: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A], the sum over its classes, from logits, [B, A, K].

        Columns are int32 [B, A], index of the target that is 1, or -1; weights are float32 [B, A].
        """


class LocalizationLoss(Protocol):
    """Compares boxes or box codes with their targets."""

    @property
    def compares_boxes(self) -> bool:
        """Whether it needs decoded boxes rather than codes."""

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor.

        Args:
            prediction: float32 [B, A, K], codes, or boxes [B, A, 4].
            target: float32 [B, A, K].
            weights: float32 [B, A].

        Returns:
            float32 [B, A].
        """


def replace_nan_targets(prediction: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Replace NaN targets by the prediction, so that the loss is 0 there; NaN marks unknown keypoints.

    Returns:
        float32 [...], the target without NaN.
    """
    return tf.where(tf.math.is_nan(target), prediction, target)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorLosses:
    """Losses, their weights, and the selection of anchors that count.

    Attributes:
        classification: loss of class logits.
        localization: loss of boxes or box codes.
        classification_weight: factor of the summed classification loss.
        localization_weight: factor of the summed localisation loss.
        hard_example_miner: selects the anchors that count; None: all.
        random_example_sampler: draws the anchors whose classification counts; None: all.
    """

    classification: ClassificationLoss
    localization: LocalizationLoss
    classification_weight: float
    localization_weight: float
    hard_example_miner: HardExampleMiner | None
    random_example_sampler: BalancedSampler | None


@dataclasses.dataclass(frozen=True)
class SigmoidLoss:
    """Sigmoid cross entropy of each class, independently of the others."""

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor and class, float32 [B, A, K]; see `ClassificationLoss`."""
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=prediction) * weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class BootstrappedSigmoidLoss:
    """Sigmoid cross entropy against a mixture of the target and the model's own prediction.

    Training on noisy labels with bootstrapping, https://arxiv.org/abs/1412.6596.

    Attributes:
        alpha: fraction of the given target, in [0, 1].
        hard_bootstrap: whether the prediction is rounded to 0 or 1.
    """

    alpha: float
    hard_bootstrap: bool

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor and class, float32 [B, A, K]; see `ClassificationLoss`."""
        own = tf.sigmoid(prediction)
        if self.hard_bootstrap:
            own = tf.cast(own > 0.5, prediction.dtype)
        mixed = self.alpha * target + (1.0 - self.alpha) * own
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=mixed, logits=prediction) * weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftmaxLoss:
    """Softmax cross entropy over the class axis, of logits divided by `logit_scale`."""

    logit_scale: float

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `ClassificationLoss`.

        Targets are probabilities; an anchor's weight is the mean of its class weights.
        """
        logits = prediction / self.logit_scale
        loss = tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=logits)
        return loss * tf.reduce_mean(weights, axis=-1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftmaxAgainstLogitsLoss:
    """Softmax cross entropy against targets that are logits themselves, as from a teacher.

    Knowledge distillation, https://arxiv.org/abs/1503.02531, where `logit_scale` is the temperature.

    Attributes:
        logit_scale: logits of prediction and target are divided by it.
    """

    logit_scale: float

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `ClassificationLoss`.

        Targets are logits; an anchor's weight is the mean of its class weights.
        """
        probabilities = tf.nn.softmax(target / self.logit_scale)
        return SoftmaxLoss(logit_scale=self.logit_scale)(prediction, probabilities, weights)


# Probabilities are clipped to this distance from 0 and 1 before a logarithm.
PROBABILITY_MARGIN = 1e-4


@dataclasses.dataclass(frozen=True, kw_only=True)
class SigmoidFocalLoss:
    """Sigmoid cross entropy, multiplied by a power of the probability's error.

    RetinaNet, https://arxiv.org/abs/1708.02002.

    Attributes:
        gamma: exponent; 0 gives plain cross entropy.
        alpha: weight of positives, with 1 - alpha for negatives; None weights both by 1.
        label_smoothing: fraction of the target that is 0.5, in the cross entropy only.
    """

    gamma: float
    alpha: float | None
    label_smoothing: float = 0.0

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor and class, float32 [B, A, K]; see `ClassificationLoss`."""
        smooth = self.label_smoothing
        labels = target * (1.0 - smooth) + 0.5 * smooth if smooth else target
        loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=prediction)
        if self.gamma:
            probability = tf.sigmoid(prediction)
            wrong = target * (1.0 - probability) + (1.0 - target) * probability
            loss *= _power(wrong, self.gamma)
        if self.alpha is not None:
            loss *= target * self.alpha + (1.0 - target) * (1.0 - self.alpha)
        return loss * weights

    def of_columns(self, prediction: tf.Tensor, columns: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `ColumnLoss`.

        Nearly every target is 0. Compute all logits with target 0 first, then replace the few others.
        The gradient is explicit because it shares terms with the loss.
        """

        @tf.custom_gradient
        def summed(logits: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            alpha, others = (1.0, 1.0) if self.alpha is None else (self.alpha, 1.0 - self.alpha)
            anchors = tf.where(columns >= 0)
            ones = tf.concat([anchors, tf.cast(tf.gather_nd(columns, anchors), tf.int64)[:, None]], axis=-1)
            loss, slopes = self._of_zeros(logits)
            # A logit with target 1 has the loss of its negative with target 0.
            positive, positive_slopes = self._of_zeros(-tf.gather_nd(logits, ones))
            loss = others * tf.reduce_sum(
                tf.tensor_scatter_nd_update(loss, ones, tf.zeros_like(positive)), axis=-1
            )

            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                found = slopes * (others * upstream)[..., tf.newaxis]
                values = -alpha * positive_slopes * tf.gather_nd(upstream, anchors)
                return tf.tensor_scatter_nd_update(found, ones, values)

            return tf.tensor_scatter_nd_add(loss, anchors, alpha * positive), gradient

        return summed(prediction) * weights

    def _of_zeros(self, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the loss of logits with target 0, and its derivative, without alpha."""
        probability, smooth = tf.sigmoid(logits), 0.5 * self.label_smoothing
        loss, slope = tf.nn.softplus(logits), probability
        if smooth:
            loss, slope = loss - smooth * logits, slope - smooth
        if not self.gamma:
            return loss, slope
        focus = _power(probability, self.gamma)
        return focus * loss, focus * (self.gamma * (1.0 - probability) * loss + slope)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PenaltyReducedFocalLoss:
    """Focal loss on heatmaps, with less penalty close to a peak.

    CenterNet, https://arxiv.org/abs/1904.07850, after CornerNet, https://arxiv.org/abs/1808.01244. A target
    of exactly 1 is a positive, all others are negatives.

    Attributes:
        alpha: focal exponent.
        beta: exponent of one minus the target, which reduces the penalty near peaks.
    """

    alpha: float
    beta: float

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every pixel and class, float32 [B, A, K]; see `ClassificationLoss`."""
        is_peak = target == 1.0
        wrong = tf.sigmoid(tf.where(is_peak, -prediction, prediction))
        wrong = tf.clip_by_value(wrong, PROBABILITY_MARGIN, 1.0 - PROBABILITY_MARGIN)
        weights = tf.where(is_peak, 1.0, _power(1.0 - target, self.beta)) * weights
        return -_power(wrong, self.alpha) * tf.math.log(1.0 - wrong) * weights


def _power(base: tf.Tensor, exponent: float) -> tf.Tensor:
    """Return a power; squares take a fraction of the time of `tf.pow` and its gradient."""
    if exponent == 4.0:
        return tf.square(tf.square(base))
    return tf.square(base) if exponent == 2.0 else tf.pow(base, exponent)


# Map sums are at least one pixel, so that the loss of empty maps is 1.
SMALLEST_TOTAL = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiceLoss:
    """One minus the Dice coefficient of predicted and true map, for each class.

    V-Net, https://arxiv.org/abs/1606.04797.

    Attributes:
        squared_normalization: whether predicted and true map are squared first.
    """

    squared_normalization: bool

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every class over all pixels, float32 [B, K]; see `ClassificationLoss`."""
        probability = tf.sigmoid(prediction)
        if self.squared_normalization:
            probability, target = tf.square(probability), tf.square(target)
        probability, target = probability * weights, target * weights
        shared = 2.0 * tf.reduce_sum(probability * target, axis=1)
        total = tf.reduce_sum(probability + target, axis=1)
        return 1.0 - shared / tf.maximum(total, SMALLEST_TOTAL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SmoothL1Loss:
    """Squared error near zero and linear beyond, summed over the code.

    Fast R-CNN, https://arxiv.org/abs/1504.08083.

    Attributes:
        delta: distance at which the linear part begins, and its slope.
    """

    compares_boxes: ClassVar[bool] = False

    delta: float

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        distance = tf.abs(prediction - target)
        near = tf.minimum(distance, self.delta)
        loss = 0.5 * tf.square(near) + self.delta * (distance - near)
        return tf.reduce_sum(loss, axis=-1) * weights


@dataclasses.dataclass(frozen=True)
class L2Loss:
    """Half the squared error, summed over the code; the weight is applied before squaring."""

    compares_boxes: ClassVar[bool] = False

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        difference = (prediction - target) * weights[..., tf.newaxis]
        return 0.5 * tf.reduce_sum(tf.square(difference), axis=-1)


@dataclasses.dataclass(frozen=True)
class L1Loss:
    """Absolute error, summed over the code."""

    compares_boxes: ClassVar[bool] = False

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        return tf.reduce_sum(tf.abs(prediction - target) * weights[..., tf.newaxis], axis=-1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class IouLoss:
    """One minus an IoU.

    UnitBox, https://arxiv.org/abs/1608.01471, uses its negative logarithm instead. The gradient of the plain
    IoU is zero for boxes that do not overlap. That of the generalised one is not:
    https://arxiv.org/abs/1902.09630.

    Attributes:
        iou: of pairs of boxes, of `ops.iou`.
    """

    compares_boxes: ClassVar[bool] = True

    iou: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

    def __call__(self, prediction: tf.Tensor, target: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Compute the loss of every anchor, float32 [B, A]; see `LocalizationLoss`."""
        return (1.0 - self.iou(prediction, target)) * weights
