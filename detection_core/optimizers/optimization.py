"""An optimizer with its learning-rate schedule, and moving averages of the weights."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tf_keras


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Schedule(tf_keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that depends only on the step, so that resuming needs no state."""

    def get_config(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Constant(Schedule):
    """The same rate at every step."""

    learning_rate: float

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate, float32 []."""
        return tf.constant(self.learning_rate, tf.float32)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ExponentialDecay(Schedule):
    """Exponential decay of the rate, after an optional constant burn-in.

    Attributes:
        initial_learning_rate: rate before any decay.
        decay_steps: steps per factor.
        decay_factor: factor of the rate every `decay_steps`.
        staircase: decay at whole multiples of `decay_steps` only.
        burnin_learning_rate: rate during burn-in; 0: the initial rate.
        burnin_steps: length of the burn-in; decay counts from its end.
        min_learning_rate: lower bound, also during burn-in.
    """

    initial_learning_rate: float
    decay_steps: int
    decay_factor: float
    staircase: bool = True
    burnin_learning_rate: float = 0.0
    burnin_steps: int = 0
    min_learning_rate: float = 0.0

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate at `step`, float32 []."""
        step = tf.cast(step, tf.float32)
        periods = tf.maximum(step - self.burnin_steps, 0.0) / self.decay_steps
        if self.staircase:
            periods = tf.floor(periods)
        decayed = self.initial_learning_rate * tf.pow(self.decay_factor, periods)
        burnin = self.burnin_learning_rate or self.initial_learning_rate
        rate = tf.where(step < self.burnin_steps, burnin, decayed)
        return tf.maximum(rate, self.min_learning_rate)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ManualStep(Schedule):
    """A list of rates, each from a given step on.

    Attributes:
        initial_learning_rate: rate before the first boundary.
        boundaries: steps at which the rate changes, strictly rising, the first above 0.
        learning_rates: the rate from each boundary on.
        warmup: increase linearly from the initial rate to the first of `learning_rates`.
    """

    initial_learning_rate: float
    boundaries: Sequence[int]
    learning_rates: Sequence[float]
    warmup: bool = False

    def __post_init__(self) -> None:
        if not self.boundaries or len(self.boundaries) != len(self.learning_rates):
            raise ValueError(
                f"a manual schedule needs at least one step with its rate, found {len(self.boundaries)} steps"
                f" and {len(self.learning_rates)} rates. Add `schedule {{ step learning_rate }}` entries."
            )
        if self.boundaries[0] == 0:
            raise ValueError(
                "the first scheduled step must be above 0, found 0."
                " Put the rate of step 0 in initial_learning_rate."
            )
        if any(b <= a for a, b in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise ValueError(
                f"scheduled steps must strictly rise, found {list(self.boundaries)}. Sort them, drop repeats."
            )

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate at `step`, float32 []."""
        step = tf.cast(step, tf.int64)
        passed = tf.reduce_sum(tf.cast(step >= tf.constant(list(self.boundaries), tf.int64), tf.int32))
        rate = tf.gather(tf.constant([self.initial_learning_rate, *self.learning_rates], tf.float32), passed)
        if not self.warmup:
            return rate
        slope = (self.learning_rates[0] - self.initial_learning_rate) / self.boundaries[0]
        climb = self.initial_learning_rate + slope * tf.cast(step, tf.float32)
        return tf.where(passed == 0, climb, rate)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CosineDecay(Schedule):
    """Linear warm-up, an optional constant phase, then half a cosine down to zero.

    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017,
    https://arxiv.org/abs/1608.03983, without the restarts. The warm-up is the gradual one of Goyal et al.,
    "Accurate, Large Minibatch SGD", 2017, https://arxiv.org/abs/1706.02677.

    Attributes:
        learning_rate_base: rate at the end of the warm-up.
        total_steps: step from which the rate is 0.
        warmup_learning_rate: rate at step 0.
        warmup_steps: length of the warm-up.
        hold_base_rate_steps: length of the constant phase after it.
    """

    learning_rate_base: float
    total_steps: int
    warmup_learning_rate: float = 0.0
    warmup_steps: int = 0
    hold_base_rate_steps: int = 0

    def __post_init__(self) -> None:
        """Check the order of steps and of rates."""
        if self.total_steps < self.warmup_steps:
            raise ValueError(
                f"total_steps must not be below warmup_steps, found {self.total_steps} and"
                f" {self.warmup_steps}. Shorten the warm-up or lengthen the schedule."
            )
        if self.warmup_steps > 0 and self.learning_rate_base < self.warmup_learning_rate:
            raise ValueError(
                "learning_rate_base must not be below warmup_learning_rate, found"
                f" {self.learning_rate_base:g} and {self.warmup_learning_rate:g}. A warm-up climbs."
            )

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate at `step`, float32 []."""
        step = tf.cast(step, tf.float32)
        start = float(self.warmup_steps + self.hold_base_rate_steps)
        angle = math.pi * (step - start) / max(self.total_steps - start, 1.0)
        rate = 0.5 * self.learning_rate_base * (1.0 + tf.cos(angle))
        if self.hold_base_rate_steps > 0:
            rate = tf.where(step > start, rate, self.learning_rate_base)
        if self.warmup_steps > 0:
            slope = (self.learning_rate_base - self.warmup_learning_rate) / self.warmup_steps
            rate = tf.where(step < self.warmup_steps, self.warmup_learning_rate + slope * step, rate)
        return tf.where(step > self.total_steps, 0.0, rate)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Warmed(Schedule):
    """A schedule of google/automl: a linear change up to `learning_rate`, then the schedule.

    The schedules of its EfficientDet (Tan et al., 2020, https://arxiv.org/abs/1911.09070) follow the
    published code. After the warm-up they continue with the schedule's rate for that step. It is below
    `learning_rate`, as no schedule counts from the end of the warm-up.

    Attributes:
        learning_rate: factor of the schedule, and target of the warm-up.
        warmup_learning_rate: rate at step 0; may be above `learning_rate`.
        warmup_steps: length of the warm-up.
    """

    learning_rate: float
    warmup_learning_rate: float = 0.0
    warmup_steps: int = 0

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        rate = self.learning_rate * self.factor(step)
        if not self.warmup_steps:
            return rate
        slope = (self.learning_rate - self.warmup_learning_rate) / self.warmup_steps
        return tf.where(step < self.warmup_end, self.warmup_learning_rate + slope * step, rate)

    @property
    def warmup_end(self) -> int:
        return self.warmup_steps

    def factor(self, step: tf.Tensor) -> Any:
        """Return the factor of the rate at float32 [] `step`."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AutomlCosine(_Warmed):
    """Half a cosine; its angle counts all steps, but is divided by those after the warm-up.

    Attributes:
        total_steps: length of the training; the angle passes pi `warmup_steps` before it.
    """

    total_steps: int

    def factor(self, step: tf.Tensor) -> Any:
        """Return a number from 0 to 1, float32 []."""
        # A training that ends within its warm-up never gets here; the original would divide by 0.
        steps = max(1, self.total_steps - self.warmup_steps)
        return 0.5 * (1.0 + tf.cos(math.pi * step / steps))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AutomlPolynomial(_Warmed):
    """A power of the remaining fraction of all steps; 0 after the last.

    Attributes:
        total_steps: step at which the rate reaches 0.
        power: of the fraction.
    """

    total_steps: int
    power: float = 0.9

    def factor(self, step: tf.Tensor) -> Any:
        """Return a number from 0 to 1, float32 []."""
        return tf.pow(tf.maximum(1.0 - step / self.total_steps, 0.0), self.power)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AutomlStepwise(_Warmed):
    """The rate, a tenth of it, a hundredth of it; a drop ends the warm-up.

    Attributes:
        first_drop_step: step from which the rate is a tenth.
        second_drop_step: step from which it is a hundredth.
    """

    first_drop_step: int
    second_drop_step: int

    @property
    def warmup_end(self) -> int:
        """Step at which the warm-up ends."""
        return min(super().warmup_end, self.first_drop_step)

    def factor(self, step: tf.Tensor) -> Any:
        """Return 1, 0.1 or 0.01, float32 []."""
        first, second = self.first_drop_step, self.second_drop_step
        return tf.where(step < first, 1.0, tf.where(step < second, 0.1, 0.01))


def with_average(average: "MovingAverage | None", *, asked: bool) -> contextlib.AbstractContextManager[None]:
    """Return a context in which averages, if kept and `asked`, replace the weights."""
    return average.swapped_in() if average is not None and asked else contextlib.nullcontext()


class MovingAverage(tf.Module):
    """An exponential moving average of weights, which often generalises better than the last weights.

    The averages start at zero. At update t, counted from 1, they keep min(decay, (1 + t) / (10 + t)) of their
    value. So the zeros fade within a few tens of updates. Averages that start from the weights, as in
    google/automl, count updates from 0.

    Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992,
    https://doi.org/10.1137/0330046, in the exponential form.
    """

    def __init__(self, variables: Sequence[tf.Variable], decay: float, *, from_weights: bool = False) -> None:
        super().__init__(name="moving_average")
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"moving_average_decay must lie in [0, 1), found {decay:g}. 0.9999 is usual.")
        self.decay = decay
        self._first = 0 if from_weights else 1
        self.averaged = list(variables)
        self.averages = [
            tf.Variable(
                v.value() if from_weights else tf.zeros(v.shape, v.dtype),
                trainable=False,
                name=f"average_{i}",
                aggregation=tf.VariableAggregation.MEAN,
            )
            for i, v in enumerate(self.averaged)
        ]

    def update(self, updates: tf.Tensor) -> None:
        """Move the averages towards the weights; updates is int64 [], their count including this one."""
        t = tf.cast(updates - 1 + self._first, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + t) / (10.0 + t))
        for average, variable in zip(self.averages, self.averaged, strict=True):
            average.assign_sub((average - variable) * tf.cast(1.0 - decay, average.dtype))

    @contextlib.contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Replace the weights by their averages during a `with` block."""
        last = [v.numpy() for v in self.averaged]
        for average, variable in zip(self.averages, self.averaged, strict=True):
            variable.assign(average)
        try:
            yield
        finally:
            for value, variable in zip(last, self.averaged, strict=True):
                variable.assign(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimization:
    """An optimizer and its moving average of weights.

    The optimizers are tf_keras' legacy ones with slots. They run one fused operation per variable on CPU and
    GPU, and use the slot names of Object Detection API checkpoints.

    Attributes:
        optimizer: a `tf_keras.optimizers.legacy.Optimizer`.
        average_decay: decay of the moving average of weights; 0: no average.
        average_from_weights: see `MovingAverage`.
    """

    optimizer: Any
    average_decay: float = 0.0
    average_from_weights: bool = False

    def learning_rate(self) -> tf.Tensor:
        """The rate of the next update, float32 []: the schedule's, after the optimizer's own decay."""
        return self.optimizer._decayed_lr(tf.float32)
