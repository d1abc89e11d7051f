"""Mixed precision: train in float32, or in 16 bits where a GPU is faster with them.

Weights stay float32 and are cast in each layer, https://arxiv.org/abs/1710.03740. Each detector chooses what
it computes in float32, see `Detector.losses`.
"""

import contextlib
import enum
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from detection_core.training.distribution import current_worker, on_any_worker
from detection_core.training.kernels import sum_bias_gradients_in_float32

_logger = logging.getLogger(__name__)

INITIAL_LOSS_SCALE = 2.0**15
LARGEST_LOSS_SCALE = 2.0**24
LOSS_SCALE = "loss_scale"
"""Part of a checkpoint that only float16 training has."""
_MANY = 2000


class Precision(enum.Enum):
    """The compute precision of layers; the value is the name of tf_keras' policy."""

    FLOAT32 = "float32"
    BFLOAT16 = "mixed_bfloat16"
    FLOAT16 = "mixed_float16"

    @property
    def dtype(self) -> str:
        """Name of the compute dtype."""
        return self.value.removeprefix("mixed_")


# Lowest compute capability of a GPU whose tensor cores support a precision, the best first.
_CAPABILITIES = (((8, 0), Precision.BFLOAT16), ((7, 0), Precision.FLOAT16))


def choose_precision(asked: Precision | None) -> Precision:
    """Choose the precision to compute in on this machine, and log it.

    With several workers, all call it in the strategy's scope and use the precision that suits every worker.

    If the config does not ask for a precision (None), it is the one that is fast on the device.
    """
    fast = device_precision()
    if asked is not None:
        if asked is not Precision.FLOAT32 and not tf.config.list_physical_devices("GPU"):
            sum_bias_gradients_in_float32()
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
    """Return the precision that is fastest on this machine's devices.

    CPUs with AMX-BF16, too, are faster in float32. Their 16-bit depthwise convolutions and normalisations
    cost more than matrix products gain, see docs/measured.md.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return Precision.FLOAT32
    details = map(tf.config.experimental.get_device_details, gpus)
    capability = min(tuple(map(int, each.get("compute_capability", (0, 0)))) for each in details)
    return next((found for least, found in _CAPABILITIES if capability >= least), Precision.FLOAT32)


def _agreed(own: Precision) -> Precision:
    """Return the precision of all workers; float32 where they differ."""
    found = (candidate for _, candidate in _CAPABILITIES if not on_any_worker(own is not candidate))
    return next(found, Precision.FLOAT32)


@contextlib.contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Set the precision of layers created in the `with` block; their weights are float32."""
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(precision.value)
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


class Applied(NamedTuple):
    """The result of an update.

    Attributes:
        made: bool [], whether weights were updated.
        counted: bool [], whether they were, or only the usual float16 overflow prevented it.
    """

    made: tf.Tensor
    counted: tf.Tensor


class PlainUpdates:
    """Applies gradients unchanged.

    The optimizer also counts skipped updates, so that its learning rate schedule goes on.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Return the loss to differentiate, float32 []."""
        return loss

    def unscaled(self, gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
        """Return the gradients of the original loss."""
        return list(gradients)

    @tf.autograph.experimental.do_not_convert
    def apply(
        self, gradients_and_variables: Iterable[tuple[tf.Tensor, tf.Variable]], wanted: tf.Tensor
    ) -> Applied:
        """Update variables in the current replica, unless a gradient is not finite in any replica.

        The gradients are this replica's. `wanted` is bool []; if false in any replica, the update is skipped
        in all.
        """
        gradients, variables = zip(*gradients_and_variables, strict=True)
        context = tf.distribute.get_replica_context()
        # Reduced over all replicas, so that they decide alike.
        unwanted, sums = context.all_reduce(
            "SUM", [tf.cast(tf.logical_not(wanted), tf.float32), [*gradients]]
        )
        asked = tf.equal(unwanted, 0.0)
        # Barring overflow beyond 3e38, a sum is finite if all its numbers are.
        finite = tf.math.is_finite(tf.add_n([tf.cast(tf.reduce_sum(g), tf.float32) for g in sums]))
        made = tf.logical_and(asked, finite)

        # Variables come from the closure: as arguments they would be the copies of one replica.
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
        """Return whether an update counts as one, bool []."""
        return made

    def _applied(self) -> None:
        """Record an applied update, across the replicas."""

    def _left_out(self) -> None:
        """Record a skipped update."""

    def scalars(self) -> dict[str, tf.Tensor]:
        """Return the scalars that an update reports, name -> float32 []."""
        return {}

    def checkpointed(self) -> dict[str, Any]:
        """Return what a checkpoint of an unfinished training holds besides the optimizer."""
        return {}


class LossScale(tf.Module):
    """The loss scale, float32 [], and consecutive finite updates since its last change, int64 []."""

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
        """Halve the factor and reset the count."""
        self.factor.assign(tf.maximum(self.factor / 2.0, 1.0))
        self.good.assign(tf.zeros_like(self.good))


class ScaledUpdates(PlainUpdates):
    """Scales the loss, so that small gradients do not underflow in float16, and unscales the gradients.

    An update with non-finite gradients in any replica is skipped in all, and halves the factor. 2,000 good
    ones in a row double it, as in https://arxiv.org/abs/1710.03740, section 3.2.
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
        """Count gradients beyond float16's range as usual: the factor was too large."""
        return asked

    def _applied(self) -> None:
        self._scale.count_good()

    def _left_out(self) -> None:
        self._scale.halve()

    def scalars(self) -> dict[str, tf.Tensor]:
        """Return the factor."""
        return {LOSS_SCALE: tf.convert_to_tensor(self._scale.factor)}

    def checkpointed(self) -> dict[str, Any]:
        """Return the factor and the count of good updates."""
        return {LOSS_SCALE: self._scale}


def updates_in(precision: Precision, optimizer: Any, initial_scale: float) -> PlainUpdates:
    """Return the object that applies a legacy tf_keras optimizer's updates in a precision.

    `initial_scale` is the initial loss scale, where the precision needs one.
    """
    return (
        ScaledUpdates(optimizer, initial_scale) if precision is Precision.FLOAT16 else PlainUpdates(optimizer)
    )
