"""Options of the training loop from a `train_config`; `config.messages.training` has its other fields."""

from __future__ import annotations

from detection_core.errors import ConfigError
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.training.loop_options import CHECKPOINT_MINUTES, TrainOptions


def build_train_options(
    train_config: TrainConfig,
    *,
    log_every: int = 20,
    checkpoint_every: int = 0,
    checkpoint_minutes: float = CHECKPOINT_MINUTES,
    steps_per_call: int = 1,
) -> TrainOptions:
    """Turn a checked `train_config` into the loop's options.

    Args:
        train_config: the message; its optimizer is read by `build_optimizer`.
        log_every: steps between reports.
        checkpoint_every: steps between checkpoints; 0: a tenth of the training, of at most 1000 steps.
        checkpoint_minutes: time after which one is written whatever the step; 0: by steps alone.
        steps_per_call: updates in one call of the compiled function.

    Raises:
        ConfigError: when the time is below 0.
    """
    if not checkpoint_minutes >= 0:
        raise ConfigError(
            f"expected 0, for checkpoints by steps alone, or more, found {checkpoint_minutes}",
            where="checkpoint_minutes",
        )
    steps = train_config.num_steps
    return TrainOptions(
        num_steps=steps,
        log_every=log_every,
        checkpoint_minutes=checkpoint_minutes,
        checkpoint_every=checkpoint_every or max(1, min(1000, steps // 10)),
        keep_checkpoint_every_n_hours=train_config.keep_checkpoint_every_n_hours,
        steps_per_call=steps_per_call,
        gradient_accumulation_steps=train_config.gradient_accumulation_steps,
        gradient_clipping_by_norm=train_config.gradient_clipping_by_norm,
        gradient_clipping_by_variable_norm=train_config.gradient_clipping_by_variable_norm,
        bias_grad_multiplier=train_config.bias_grad_multiplier,
        add_regularization_loss=train_config.add_regularization_loss,
        update_trainable_variables=tuple(train_config.update_trainable_variables),
        freeze_variables=tuple(train_config.freeze_variables),
        backbone_rate_decay=train_config.backbone_rate_decay,
        freeze_backbone_stages=train_config.freeze_backbone_stages,
        summarize_gradients=train_config.summarize_gradients,
        max_skipped_updates=train_config.max_skipped_updates,
        deterministic=train_config.deterministic,
        initial_loss_scale=train_config.initial_loss_scale,
        histograms_every_steps=train_config.monitoring.histograms_every_steps,
        seed=train_config.seed,
        batch_size=train_config.batch_size,
    )
