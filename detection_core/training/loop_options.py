"""Options of the training loop."""

import dataclasses

from detection_core.training.precision import INITIAL_LOSS_SCALE, Precision

CHECKPOINT_MINUTES = 5.0
"""Default time between two checkpoints, which is also the most that an unannounced kill may lose."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of a training; nothing here is about the model or the data.

    Attributes:
        num_steps: total updates, those before a resume included.
        log_every: steps between reports to the actions.
        checkpoint_every: steps between checkpoints; one is also written at the end and on a stop signal.
        checkpoint_minutes: time after which one is written at any step, as a kill may come without a signal;
            0: by steps alone.
        checkpoints_to_keep: number of newest checkpoints to keep.
        keep_checkpoint_every_n_hours: besides those, keep one per this many hours.
        steps_per_call: updates per call of the compiled function; more save time on fast accelerators.
        gradient_accumulation_steps: parts of an update's batch, computed one after the other; 0 in a plan:
            chosen by memory before training begins.
        gradient_clipping_by_norm: largest global norm of the gradients; 0: no clipping.
        gradient_clipping_by_variable_norm: largest norm of a variable's gradient, clipped first; 0: no
            clipping.
        bias_grad_multiplier: factor for the gradients of biases; 0: no factor.
        add_regularization_loss: whether the regularisation loss counts.
        update_trainable_variables: patterns (`re.search`); if given, only matching variables are trained.
        freeze_variables: patterns (`re.search`) of variables that are not trained.
        backbone_rate_decay: factor of the learning rate from a stage of the backbone to the one before it.
        freeze_backbone_stages: number of first backbone stages that are not trained.
        summarize_gradients: whether gradient norms are reported to the actions.
        skip_limit: largest fraction of the training records that may be skipped because they do not decode.
        max_skipped_updates: updates that may be skipped because their loss or a gradient is not finite; 0:
            training stops at the first.
        deterministic: whether results repeat exactly, see `Reproducibility`; the wait for batches is then not
            measured.
        precision: number format of the model's computations.
        initial_loss_scale: initial loss scale in float16.
        histograms_every_steps: updates between histograms of parameters and gradients; 0: none.
        seed: of random draws in an update: dropout, stochastic depth, sampled anchors.
        batch_size: images per update, over all replicas, for reports; 0: unknown.
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

    def __post_init__(self) -> None:
        for name in ("num_steps", "log_every", "checkpoint_every", "checkpoints_to_keep", "steps_per_call"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        if not self.checkpoint_minutes >= 0:
            raise ValueError(f"checkpoint_minutes must be 0 or more, found {self.checkpoint_minutes}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepReport:
    """A report of the loop to its actions.

    Attributes:
        step: updates applied.
        steps: total updates.
        losses: loss name -> mean over replicas at this step; `Loss/total_loss` is among them.
        learning_rate: of the last update.
        steps_per_second: speed over the last reports; 0 until known.
        scalars: further numbers, such as gradient norms, by name.
        images_per_second: speed over the last reports; 0 until known.
        data_wait: fraction of the time since the last report in which updates waited for their batches.
        memory_bytes: memory of this process.
        device_memory_bytes: memory of tensors on the fullest GPU; 0 without one.
        skipped_updates: total updates skipped because a value is not finite.
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
