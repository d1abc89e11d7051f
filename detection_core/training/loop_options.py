"""Options of the training loop."""

from __future__ import annotations

import dataclasses

from detection_core.training.precision import INITIAL_LOSS_SCALE, Precision

CHECKPOINT_MINUTES = 5.0
"""Default of the time between two checkpoints, and so of what a kill without a warning may cost."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How to train; nothing here is about the model or the data.

    Attributes:
        num_steps: updates in all, those before a resume included.
        log_every: steps between reports to the actions.
        checkpoint_every: steps between checkpoints; one is also written at the end and on a stop signal.
        checkpoint_minutes: time after which one is written whatever the step, as not every kill comes with a
            signal; 0 goes by steps alone.
        checkpoints_to_keep: how many of the newest checkpoints stay.
        keep_checkpoint_every_n_hours: beside those, one stays every so many hours.
        steps_per_call: updates in one call of the compiled function; more save time on fast accelerators.
        gradient_accumulation_steps: parts of an update's batch, computed one after the other; 0 in a plan: as
            many as the memory needs, which is settled before training begins.
        gradient_clipping_by_norm: largest global norm of the gradients; 0 does not clip.
        gradient_clipping_by_variable_norm: largest norm of a variable's gradient, clipped before; 0: any.
        bias_grad_multiplier: factor for the gradients of biases; 0 leaves them alone.
        add_regularization_loss: whether the regularisation loss counts.
        update_trainable_variables: patterns (`re.search`); when given, only what matches one is trained.
        freeze_variables: patterns (`re.search`) of variables that are not trained.
        backbone_rate_decay: factor of the learning rate from a stage of the backbone to the one before it.
        freeze_backbone_stages: so many of its stages, from the first, are not trained.
        summarize_gradients: whether gradient norms are reported to the actions.
        skip_limit: fraction of the training records that may be left out because they do not decode.
        max_skipped_updates: updates that may be left out because their loss or a gradient is not finite; 0:
            training stops at the first.
        deterministic: this process is set up to compute alike each time, see `Reproducibility`; how long
            updates wait for batches is then not measured.
        precision: what the model was built to compute in.
        initial_loss_scale: factor of the loss at first, where the model computes in float16.
        histograms_every_steps: updates from one measurement of how parameters and gradients are spread to the
            next; 0: none.
        seed: of what an update draws at random: dropout, stochastic depth, sampled anchors.
        batch_size: images an update, over all replicas, for reports; 0: not known.
    """

    num_steps: int
    log_every: int = 20
    checkpoint_every: int = 500
    checkpoint_minutes: float = CHECKPOINT_MINUTES
    checkpoints_to_keep: int = 3
    keep_checkpoint_every_n_hours: float = 10000.0
    steps_per_call: int = 1
    gradient_accumulation_steps: int = 1
    gradient_clipping_by_norm: float = 0.0
    gradient_clipping_by_variable_norm: float = 0.0
    bias_grad_multiplier: float = 0.0
    add_regularization_loss: bool = True
    update_trainable_variables: tuple[str, ...] = ()
    freeze_variables: tuple[str, ...] = ()
    backbone_rate_decay: float = 1.0
    freeze_backbone_stages: int = 0
    summarize_gradients: bool = False
    skip_limit: float = 0.01
    max_skipped_updates: int = 0
    deterministic: bool = False
    precision: Precision = Precision.FLOAT32
    initial_loss_scale: float = INITIAL_LOSS_SCALE
    histograms_every_steps: int = 0
    seed: int = 0
    batch_size: int = 0

    @property
    def knows_stages(self) -> bool:
        """Whether the stages of the backbone are not trained alike."""
        return self.backbone_rate_decay != 1.0 or self.freeze_backbone_stages > 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("num_steps", "log_every", "checkpoint_every", "checkpoints_to_keep", "steps_per_call"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        if not self.checkpoint_minutes >= 0:
            raise ValueError(f"checkpoint_minutes must be 0 or more, found {self.checkpoint_minutes}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepReport:
    """What the loop tells its actions.

    Attributes:
        step: updates applied.
        steps: updates in all.
        losses: loss name to value at this step, the mean over replicas; `Loss/total_loss` is among them.
        learning_rate: rate of the last update.
        steps_per_second: speed over the last reports; 0 until it is known.
        scalars: further numbers (gradient norms), name to value.
        images_per_second: speed over the last reports; 0 until it is known.
        data_wait: fraction of the time since the last report in which updates waited for their batches.
        memory_bytes: what this process holds.
        device_memory_bytes: what tensors take on the fullest GPU; 0 without one.
        skipped_updates: updates that were left out so far because something in them is not finite.
    """

    step: int
    steps: int
    losses: dict[str, float]
    learning_rate: float
    steps_per_second: float
    scalars: dict[str, float] = dataclasses.field(default_factory=dict)
    images_per_second: float = 0.0
    data_wait: float = 0.0
    memory_bytes: int = 0
    device_memory_bytes: int = 0
    skipped_updates: int = 0
