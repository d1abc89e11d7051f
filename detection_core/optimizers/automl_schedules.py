"""Learning rates of google/automl's EfficientDet, with the odd ways of their warm-up.

Tan et al., "EfficientDet: Scalable and Efficient Object Detection", 2020, https://arxiv.org/abs/1911.09070,
train with them; the shapes are those of the published code. The rate at the end of the warm-up is what the
schedule gives for that step, which is less than `learning_rate`: no schedule counts from the warm-up's end.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import tensorflow as tf

from detection_core.optimizers.schedules import Schedule


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarmupOptions:
    """What the schedules share: a straight line up to `learning_rate`, then the schedule.

    Attributes:
        learning_rate: what the schedule multiplies, and where the line would end.
        warmup_learning_rate: rate at step 0; may be above.
        warmup_steps: length of the line.
    """

    learning_rate: float
    warmup_learning_rate: float = 0.0
    warmup_steps: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutomlCosineOptions:
    """Half a cosine.

    Attributes:
        warmup: the warm-up; as long as the training or longer, it is the whole schedule.
        total_steps: length of the training; the angle passes pi `warmup_steps` before it.
    """

    warmup: WarmupOptions
    total_steps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutomlPolynomialOptions:
    """A power of the part of the training that is left.

    Attributes:
        warmup: the warm-up.
        total_steps: step at which the rate reaches 0.
        power: of the part.
    """

    warmup: WarmupOptions
    total_steps: int
    power: float = 0.9


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutomlStepwiseOptions:
    """Two drops to a tenth.

    Attributes:
        warmup: the warm-up.
        first_drop_step: step from which the rate is a tenth.
        second_drop_step: step from which it is a hundredth.
    """

    warmup: WarmupOptions
    first_drop_step: int
    second_drop_step: int


class _Warmed(Schedule):
    """A schedule behind a warm-up."""

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate at `step`, float32 []."""
        warmup: WarmupOptions = self.options.warmup
        step = tf.cast(step, tf.float32)
        rate = warmup.learning_rate * self.factor(step)
        if not warmup.warmup_steps:
            return rate
        slope = (warmup.learning_rate - warmup.warmup_learning_rate) / warmup.warmup_steps
        return tf.where(step < self.warmup_end, warmup.warmup_learning_rate + slope * step, rate)

    @property
    def warmup_end(self) -> int:
        """Step from which the warm-up's line is left."""
        return int(self.options.warmup.warmup_steps)

    def factor(self, step: tf.Tensor) -> Any:
        """Return what the schedule makes of the rate at float32 [] `step`."""
        raise NotImplementedError


class AutomlCosine(_Warmed):
    """Half a cosine whose angle counts all steps, over those without the warm-up's."""

    def factor(self, step: tf.Tensor) -> Any:
        """Return a number from 0 to 1, float32 []."""
        # A training that ends in its warm-up never gets here; the original would divide by 0.
        steps = max(1, self.options.total_steps - self.options.warmup.warmup_steps)
        return 0.5 * (1.0 + tf.cos(math.pi * step / steps))


class AutomlPolynomial(_Warmed):
    """A power of the part of all steps that is left; 0 after the last."""

    def factor(self, step: tf.Tensor) -> Any:
        """Return a number from 0 to 1, float32 []."""
        return tf.pow(tf.maximum(1.0 - step / self.options.total_steps, 0.0), self.options.power)


class AutomlStepwise(_Warmed):
    """The rate, a tenth of it, a hundredth of it; a drop ends the warm-up."""

    @property
    def warmup_end(self) -> int:
        """Step from which the warm-up's line is left."""
        return min(super().warmup_end, self.options.first_drop_step)

    def factor(self, step: tf.Tensor) -> Any:
        """Return 1, 0.1 or 0.01, float32 []."""
        first, second = self.options.first_drop_step, self.options.second_drop_step
        return tf.where(step < first, 1.0, tf.where(step < second, 0.1, 0.01))
