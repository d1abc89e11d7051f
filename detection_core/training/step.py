"""One update of the weights, and the compiled function that makes several."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf
import tf_keras

from detection_core.detectors.base import REGULARIZATION_LOSS, TOTAL_LOSS, with_total
from detection_core.errors import ConfigError, ModelError
from detection_core.garbage import no_collection
from detection_core.ops.tracing import without_rewrites
from detection_core.ops.update_draws import update_draws
from detection_core.optimizers.optimization import MovingAverage, Optimization
from detection_core.parts.layers.layer_names import scoped_name
from detection_core.structures import Batch, GroundTruth
from detection_core.training.guard import SKIPPED_UPDATES, FiniteGuard, StepOutputs
from detection_core.training.histograms import measured_histograms
from detection_core.training.loop_options import TrainOptions
from detection_core.training.precision import Precision, updates_in
from detection_core.training.variables import backbone_stages, rate_factors, scaled_updates, trained_variables


def gains_nothing_from_rewrites(precision: Precision) -> bool:
    """Return whether a step in the current strategy is as fast without graph rewrites.

    On CPUs in float32, no step becomes faster or smaller, and rewriting takes up to half of the first step
    (see `benchmarks/training_step.py`). They help elsewhere. GPUs want another layout, several
    replicas want joined collectives, and 16-bit products want fusion.
    """
    alone = tf.distribute.get_strategy().num_replicas_in_sync == 1
    return alone and precision is Precision.FLOAT32 and not tf.config.list_logical_devices("GPU")


Losses = Callable[[Batch, bool], dict[str, tf.Tensor]]
"""Signature of `TrainableModel.losses`."""


class TrainableModel(Protocol):
    """The part of a model that training uses; every `Detector` has it."""

    @property
    def variables(self) -> Sequence[tf.Variable]:
        """All variables."""

    @property
    def trainable_variables(self) -> Sequence[tf.Variable]:
        """Variables that training may change."""

    @property
    def networks(self) -> Mapping[str, tf_keras.Model]:
        """Flat functional models by name; used where backbone stages are trained differently."""

    def gradient_factor(self, images: int) -> float:
        """Return the factor of the gradients for a batch with this number of images."""

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Return named scalar losses, and their sum as `TOTAL_LOSS`."""


def new_step() -> tf.Variable:
    """Create the global step: int64 [], the number of updates applied.

    A model that changes during training (quantization delay) may hold this variable; the loop increments it.
    """
    return tf.Variable(
        0,
        dtype=tf.int64,
        trainable=False,
        name="global_step",
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


class TrainState:
    """Everything that an update changes.

    Attributes:
        model: the model.
        losses: computes the losses of a batch.
        optimization: optimizer and learning rate.
        step: the global step.
        variables: the variables to train.
        average: their moving average, or None.
        rate_factors: factor of each variable's learning rate; empty: 1.
        updates: applies the optimizer's updates.
        guard: counts updates that are skipped because a value is not finite.
    """

    def __init__(
        self,
        model: TrainableModel,
        optimization: Optimization,
        options: TrainOptions,
        step: tf.Variable | None,
    ) -> None:
        self.model = model
        self.losses: Losses = model.losses
        self.optimization = optimization
        self.step = new_step() if step is None else step
        decay = options.backbone_rate_decay
        networks = model.networks.values() if decay != 1.0 or options.freeze_backbone_stages else ()
        self.variables = trained_variables(model.trainable_variables, options, networks)
        self.rate_factors = (
            rate_factors(self.variables, backbone_stages(networks), decay) if decay != 1.0 else ()
        )
        decay = optimization.average_decay
        from_weights = optimization.average_from_weights
        self.average = MovingAverage(self.variables, decay, from_weights=from_weights) if decay else None
        self.updates = updates_in(options.precision, optimization.optimizer, options.initial_loss_scale)
        self.guard = FiniteGuard(self.step, options.max_skipped_updates)
        self._guard_stays = options.max_skipped_updates > 0
        # Create the slots before a checkpoint is read, so that a damaged one fails at once.
        optimization.optimizer._create_all_weights(self.variables)

    def with_losses(self, losses: Losses) -> "TrainState":
        """Return the same state, with the losses of another network that shares the variables."""
        other = copy.copy(self)
        other.losses = losses
        return other

    def checkpointed(self) -> dict[str, Any]:
        """Return the parts of a checkpoint of an unfinished training."""
        parts = {"model": self.model, "optimizer": self.optimization.optimizer, "step": self.step}
        average = {"moving_average": self.average} if self.average else {}
        guard = {SKIPPED_UPDATES: self.guard} if self._guard_stays else {}
        return parts | average | self.updates.checkpointed() | guard

    def statistics(self) -> list[tuple[tf.Variable, tf.Tensor]]:
        """Return the variables that computing a loss changes, such as batch statistics, with their values."""
        one = tf.distribute.get_strategy().num_replicas_in_sync == 1
        changed = [v for v in self.model.variables if not v.trainable]
        # Each replica has its own copy; a replica cannot change shared variables.
        own = [v for v in changed if one or v.synchronization is tf.VariableSynchronization.ON_READ]
        return [(v, v.value()) for v in own]


def train_step(state: TrainState, options: TrainOptions, replicas: int, batch: Batch) -> StepOutputs:
    """Apply one update in the current replica, on its part of the batch.

    `replicas` is the number of replicas over which gradients are summed.
    """
    statistics = state.statistics()
    losses, gradients = accumulated(state, options, replicas, batch)
    factor = state.model.gradient_factor(batch.images.pixels.shape[0])
    gradients = gradients if factor == 1.0 else [gradient * factor for gradient in gradients]
    measured = gradients
    gradients, scalars = shape_gradients(gradients, state.variables, options)
    scalars |= state.updates.scalars()
    learning_rate = state.optimization.learning_rate()
    with scaled_updates(state.variables, state.rate_factors):
        wanted = tf.logical_and(tf.math.is_finite(losses[TOTAL_LOSS]), tf.logical_not(state.guard.halted))
        applied = state.updates.apply(zip(gradients, state.variables, strict=True), wanted)
    kept = [tf.where(applied.counted, variable.value(), before) for variable, before in statistics]
    if options.deterministic and replicas > 1 and kept:
        # A checkpoint has their mean over the replicas, with which a resumed training goes on. Without one,
        # each replica's own values would give another rounding in the end.
        kept = tf.distribute.get_replica_context().all_reduce("MEAN", kept)
    for (variable, _), value in zip(statistics, kept, strict=True):
        variable.assign(value)
    updates = state.step.assign_add(1)
    if state.average is not None:
        state.average.update(updates)
    skipped, histograms = 1.0 - tf.cast(applied.counted, tf.float32), {}
    if every := options.histograms_every_steps:
        due = tf.equal(state.step % every, 0)
        histograms = measured_histograms(due, state.variables, measured, replicas)
    return StepOutputs(
        losses=losses, learning_rate=learning_rate, scalars=scalars, skipped=skipped, histograms=histograms
    )


def accumulated(
    state: TrainState, options: TrainOptions, replicas: int, batch: Batch
) -> tuple[dict[str, tf.Tensor], list[tf.Tensor]]:
    """Compute losses and gradients of a batch, in as many parts as the options say.

    Each part has separate batch statistics and a separate count of matched anchors, as a replica's share has.
    The update uses the mean over the parts. Parts run one after another, so memory holds the activations of
    only one.

    Raises:
        ConfigError: when the parts would not be equal.
    """
    parts, images = options.gradient_accumulation_steps, batch.images.pixels.shape[0]
    if parts == 1:
        return _loss_and_gradients(state, options, replicas, batch, 0)
    if images is None or images % parts:
        raise ConfigError(
            f"expected a number that divides the {images} images of a replica, found {parts}",
            where="train_config.gradient_accumulation_steps",
        )
    size = images // parts

    def share(part: tf.Tensor | int) -> Any:
        some = tf.nest.map_structure(lambda field: _rows(field, part * size, size), batch)
        found = _loss_and_gradients(state, options, replicas, some, part)
        return tf.nest.map_structure(lambda value: value / parts, found)

    def add(part: tf.Tensor | int, sums: Any) -> tuple[tf.Tensor | int, Any]:
        return part + 1, tf.nest.map_structure(tf.add, sums, share(part))

    sums = share(0)
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        parts_left = (tf.constant(1), sums)
        _, sums = tf.while_loop(lambda part, _: part < parts, add, parts_left, parallel_iterations=1)
    else:
        # Collectives of replicas cannot run inside a loop of the graph.
        for part in range(1, parts):
            with tf.control_dependencies(tf.nest.flatten(sums)):
                _, sums = add(part, sums)
    losses, gradients = sums
    return losses, gradients


def _rows(field: tf.Tensor, first: tf.Tensor | int, count: int) -> tf.Tensor:
    return tf.ensure_shape(field[first : first + count], [count, *field.shape[1:]])


def _loss_and_gradients(
    state: TrainState, options: TrainOptions, replicas: int, batch: Batch, part: tf.Tensor | int
) -> tuple[dict[str, tf.Tensor], list[tf.Tensor]]:
    """Compute the losses of a part of a replica's batch, and its share of the gradients."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    with update_draws(options.seed, state.step, part, replica), tf.GradientTape() as tape:
        unpadded = batch._replace(truth=without_padding(batch.truth))
        losses = counted_losses(state.losses(unpadded, True), options)
        target = state.updates.scaled(losses[TOTAL_LOSS] / replicas)
    gradients = state.updates.unscaled(tape.gradient(target, state.variables))
    return losses, _without_gaps(gradients, state.variables)


def _without_gaps(gradients: Sequence[tf.Tensor | None], variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """Return dense gradients; a ModelError names a variable that the loss does not depend on."""
    idle = [scoped_name(v) for v, gradient in zip(variables, gradients, strict=True) if gradient is None]
    if idle:
        raise ModelError(
            f"expected the loss to depend on every trained variable, but it does not on {idle[:5]}"
            f" ({len(idle)} in all). Exclude them with train_config.freeze_variables."
        )
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


def without_padding(truth: GroundTruth) -> GroundTruth:
    """Cut the padding that no image of the batch needs; at least one row stays.

    Padding follows each image's rows; matching costs time and memory for each pair of row and anchor.
    """
    numbers = tf.range(1, tf.shape(truth.valid)[1] + 1)
    needed = tf.maximum(tf.reduce_max(tf.where(truth.valid, numbers, 0)), 1)
    return tf.nest.map_structure(lambda field: field[:, :needed], truth)


def counted_losses(losses: dict[str, tf.Tensor], options: TrainOptions) -> dict[str, tf.Tensor]:
    """Remove the regularisation loss, also from the total, if it is disabled."""
    if options.add_regularization_loss or REGULARIZATION_LOSS not in losses:
        return losses
    return with_total({name: value for name, value in losses.items() if name != REGULARIZATION_LOSS})


def shape_gradients(
    gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable], options: TrainOptions
) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
    """Multiply bias gradients, clip, and measure norms, as the options say.

    Returns:
        The gradients, and name -> norm (before clipping) when gradients are summarised.
    """
    names = [scoped_name(v) for v in variables]
    shaped = list(gradients)
    if options.bias_grad_multiplier:
        factors = [options.bias_grad_multiplier if re.search(r"(^|/)bias(es)?$", n) else None for n in names]
        shaped = [g if f is None else g * f for g, f in zip(shaped, factors, strict=True)]
    scalars = {}
    if options.summarize_gradients:
        scalars = {f"gradient_norm/{n}": tf.norm(g) for n, g in zip(names, shaped, strict=True)}
        scalars["gradient_norm/global"] = tf.linalg.global_norm(shaped)
    if options.gradient_clipping_by_variable_norm > 0:
        longest = options.gradient_clipping_by_variable_norm
        shaped = [tf.clip_by_norm(gradient, longest) for gradient in shaped]
    if options.gradient_clipping_by_norm > 0:
        shaped, _ = tf.clip_by_global_norm(shaped, options.gradient_clipping_by_norm)
    return shaped, scalars


def compile_steps(
    state: TrainState,
    options: TrainOptions,
    watch: Callable[[StepOutputs], None],
    draw: Callable[[Iterator[Batch]], Batch] = next,
) -> Callable[[Iterator[Batch], tf.Tensor], StepOutputs]:
    """Compile the loop's function: (iterator, number of updates) -> outputs of the last one.

    In the graph, `draw` takes a batch from the iterator, and `watch` gets each update's outputs. So checks
    need no host synchronisation.
    """
    strategy = tf.distribute.get_strategy()
    replicas = strategy.num_replicas_in_sync

    def one_step(iterator: Iterator[Batch]) -> StepOutputs:
        # Garbage collection would cost about 5 % of tracing time.
        with no_collection():
            outputs = strategy.run(
                lambda batch: train_step(state, options, replicas, batch), args=(draw(iterator),)
            )
            mean = tf.nest.map_structure(lambda v: strategy.reduce("MEAN", v, axis=None), outputs)
            watch(mean)
        return mean

    @tf.function
    def many_steps(iterator: Iterator[Batch], count: tf.Tensor) -> StepOutputs:
        outputs = one_step_function(iterator)
        for _ in tf.range(count - 1):
            outputs = one_step_function(iterator)
        return outputs

    # Steps have no Python control flow over tensors. AutoGraph would double the time of the first step.
    one_step_function = tf.function(one_step, autograph=False)
    compiled = (
        many_steps if options.steps_per_call > 1 else lambda iterator, count: one_step_function(iterator)
    )
    return without_rewrites()(compiled) if gains_nothing_from_rewrites(options.precision) else compiled
