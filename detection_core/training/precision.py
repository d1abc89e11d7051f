"""What a network computes in while it is trained: float32, or half as many bits where a GPU is fast in them.

Weights stay float32 and are cast where a layer computes, https://arxiv.org/abs/1710.03740. The float32 part
of a detector is its own business, see `Detector.losses`.
"""

from __future__ import annotations

import contextlib
import enum
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from detection_core.training.distribution import current_worker, on_any_worker

_logger = logging.getLogger(__name__)

INITIAL_LOSS_SCALE = 2.0**15
LARGEST_LOSS_SCALE = 2.0**24
LOSS_SCALE = "loss_scale"
"""Part of a checkpoint that only a training in float16 has."""
_MANY = 2000


class Precision(enum.Enum):
    """What layers compute in; the value is the name of tf_keras' policy."""

    FLOAT32 = "float32"
    BFLOAT16 = "mixed_bfloat16"
    FLOAT16 = "mixed_float16"

    @property
    def dtype(self) -> str:
        """The name of the numbers."""
        return self.value.removeprefix("mixed_")


# Least compute capability of a GPU whose matrix units compute in a precision, the best first.
_CAPABILITIES = (((8, 0), Precision.BFLOAT16), ((7, 0), Precision.FLOAT16))


def choose_precision(asked: Precision | None) -> Precision:
    """Return the precision to compute in on this machine, and log it.

    Of several workers all call it, in the strategy's scope: they take what each of them would.

    Args:
        asked: by the config; None for what the device is fast in.
    """
    fast = device_precision()
    if asked is not None:
        if asked is not Precision.FLOAT32 and not tf.config.list_physical_devices("GPU"):
            _logger.warning(
                "train_config.precision %s is slow here: there is no GPU, and processors are faster in"
                " float32",
                asked.name,
            )
        return asked
    if current_worker().count > 1:
        fast = _agreed(fast)
    if fast is not Precision.FLOAT32:
        _logger.info("the network computes in %s; train_config.precision: FLOAT32 changes that", fast.dtype)
    return fast


def device_precision() -> Precision:
    """Return what this machine's devices are fast in.

    Processors with AMX-BF16, too, are faster in float32: depthwise convolutions and normalisations of half as
    many bits cost more there than products gain, see docs/measured.md.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return Precision.FLOAT32
    capability = min(_capability(gpu) for gpu in gpus)
    return next((found for least, found in _CAPABILITIES if capability >= least), Precision.FLOAT32)


def _capability(gpu: Any) -> tuple[int, int]:
    """Return a GPU's compute capability; (0, 0) where it has none."""
    major, minor = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
    return int(major), int(minor)


def _agreed(own: Precision) -> Precision:
    """Return what every worker would take; float32 where they differ."""
    for _, candidate in _CAPABILITIES:
        if not on_any_worker(own is not candidate):
            return candidate
    return Precision.FLOAT32


@contextlib.contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Let layers that are made in a `with` block compute in a precision; their weights are float32."""
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(precision.value)
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


class Applied(NamedTuple):
    """What came of an update.

    Attributes:
        made: bool [], weights were updated.
        counted: bool [], they were, or only as little as usual was in the way.
    """

    made: tf.Tensor
    counted: tf.Tensor


class PlainUpdates:
    """Applies gradients as they are.

    The optimizer counts an update that is left out, so that its learning rate goes on.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Return what gradients are computed of, float32 []."""
        return loss

    def unscaled(self, gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
        """Return the gradients of the loss itself."""
        return list(gradients)

    @tf.autograph.experimental.do_not_convert
    def apply(
        self, gradients_and_variables: Iterable[tuple[tf.Tensor, tf.Variable]], wanted: tf.Tensor
    ) -> Applied:
        """Update variables, in the current replica, unless a gradient is not finite in any.

        Args:
            gradients_and_variables: gradients are this replica's.
            wanted: bool [], false in any replica leaves the update out in all.
        """
        gradients, variables = zip(*gradients_and_variables, strict=True)
        context = tf.distribute.get_replica_context()
        # Equal in all replicas, so that they decide alike.
        unwanted, sums = context.all_reduce(
            "SUM", [tf.cast(tf.logical_not(wanted), tf.float32), [*gradients]]
        )
        asked = tf.equal(unwanted, 0.0)
        # A sum is finite where all of its numbers are, short of 3e38.
        finite = tf.math.is_finite(tf.add_n([tf.cast(tf.reduce_sum(g), tf.float32) for g in sums]))
        made = tf.logical_and(asked, finite)

        # Variables come in the closure: as arguments they would arrive as the copies of one replica.
        def update(sums: Sequence[tf.Tensor]) -> None:
            pairs = zip(sums, variables, strict=True)
            self._optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)

        def together(strategy: tf.distribute.Strategy, made: Any, sums: Any) -> None:
            def apply() -> None:
                strategy.run(update, args=(sums,))
                self._applied()

            def leave_out() -> None:
                self._optimizer.iterations.assign_add(1)
                self._left_out()

            tf.cond(strategy.experimental_local_results(made)[0], apply, leave_out)

        context.merge_call(together, args=(made, sums))
        return Applied(made=made, counted=self._counted(asked, made))

    def _counted(self, asked: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
        """Tell whether an update counts as one, bool []."""
        return made

    def _applied(self) -> None:
        """Note an update that was made, across the replicas."""

    def _left_out(self) -> None:
        """Note one that was left out."""

    def scalars(self) -> dict[str, tf.Tensor]:
        """Return the scalars that an update reports, name to float32 []."""
        return {}

    def checkpointed(self) -> dict[str, Any]:
        """Name what a checkpoint of an unfinished training holds beside the optimizer."""
        return {}


class LossScale(tf.Module):
    """The factor of the loss.

    Attributes:
        factor: float32 [].
        good: int64 [], updates in a row whose gradients were finite, since the factor last changed.
    """

    def __init__(self, initial: float) -> None:
        super().__init__(name=LOSS_SCALE)
        first = tf.VariableAggregation.ONLY_FIRST_REPLICA
        self.factor = tf.Variable(
            initial, dtype=tf.float32, trainable=False, name="factor", aggregation=first
        )
        self.good = tf.Variable(0, dtype=tf.int64, trainable=False, name="good", aggregation=first)

    def count_good(self) -> None:
        """Count an update; many in a row double the factor."""
        good = self.good + 1
        many = good >= _MANY
        self.factor.assign(tf.where(many, tf.minimum(self.factor * 2.0, LARGEST_LOSS_SCALE), self.factor))
        self.good.assign(tf.where(many, tf.zeros_like(good), good))

    def halve(self) -> None:
        """Make the factor smaller, and count from 0."""
        self.factor.assign(tf.maximum(self.factor / 2.0, 1.0))
        self.good.assign(tf.zeros_like(self.good))


class ScaledUpdates(PlainUpdates):
    """Multiplies the loss, so that small gradients are not lost in float16, and divides the gradients.

    An update whose gradients are not finite in any replica is left out in all, and halves the factor; 2,000
    good ones in a row double it, as in https://arxiv.org/abs/1710.03740, section 3.2.
    """

    def __init__(self, optimizer: Any, initial_scale: float) -> None:
        super().__init__(optimizer)
        self._scale = LossScale(initial_scale)

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Return the loss times the factor."""
        return loss * self._scale.factor

    def unscaled(self, gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
        """Divide gradients by the factor."""
        inverse = 1.0 / self._scale.factor
        return [None if gradient is None else gradient * inverse for gradient in gradients]

    def _counted(self, asked: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
        """Take gradients beyond float16 for usual: the factor was too large."""
        return asked

    def _applied(self) -> None:
        self._scale.count_good()

    def _left_out(self) -> None:
        self._scale.halve()

    def scalars(self) -> dict[str, tf.Tensor]:
        """Return the factor."""
        return {LOSS_SCALE: tf.convert_to_tensor(self._scale.factor)}

    def checkpointed(self) -> dict[str, Any]:
        """Name the factor and the count of good updates."""
        return {LOSS_SCALE: self._scale}


def updates_in(precision: Precision, optimizer: Any, initial_scale: float) -> PlainUpdates:
    """Return what applies an optimizer's updates in a precision.

    Args:
        precision: what the network computes in.
        optimizer: a `tf_keras.optimizers.legacy.Optimizer`.
        initial_scale: factor of the loss at first, where the precision needs one.
    """
    return (
        ScaledUpdates(optimizer, initial_scale) if precision is Precision.FLOAT16 else PlainUpdates(optimizer)
    )
