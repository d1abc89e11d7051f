"""What a `train_config` asks of the training loop, field by field: used, without effect, or refused."""

from __future__ import annotations

import logging

from detection_core.errors import ConfigError
from detection_core.protos.train_pb2 import CheckpointVersion, TrainConfig
from detection_core.training.options import TrainOptions

_logger = logging.getLogger(__name__)

# Fields that the loop, the optimizer's builder or the restoring of weights reads.
USED = frozenset(
    {
        "add_regularization_loss",
        "bias_grad_multiplier",
        "fine_tune_checkpoint",
        "fine_tune_checkpoint_type",
        "fine_tune_checkpoint_version",
        "freeze_variables",
        "from_detection_checkpoint",
        "gradient_clipping_by_norm",
        "keep_checkpoint_every_n_hours",
        "num_steps",
        "optimizer",
        "summarize_gradients",
        "update_trainable_variables",
    }
)
# Fields that the training input reads.
USED_BY_INPUT = frozenset({"batch_size", "data_augmentation_options", "max_number_of_boxes"})
# Fields that change nothing here, and why. One warning names those that a config sets to something else
# than their default.
WITHOUT_EFFECT = {
    "sync_replicas": "replicas always update together",
    "startup_delay_steps": "there are no asynchronous workers to delay",
    "replicas_to_aggregate": "all replicas are aggregated",
    "batch_queue_capacity": "input is a tf.data pipeline, not a queue",
    "num_batch_queue_threads": "input is a tf.data pipeline, not a queue",
    "prefetch_queue_capacity": "input is a tf.data pipeline, not a queue",
    "run_fine_tune_checkpoint_dummy_computation": "the variables exist as soon as the model is built",
    "unpad_groundtruth_tensors": "padded ground truth is masked, which comes to the same",
    "retain_original_images": "no images are written to the summaries",
    "use_bfloat16": "it is for TPUs; training is in float32",
}
# Fields that would change the result and that nothing here can follow: refused unless at their default.
REFUSED = {
    "load_all_detection_checkpoint_vars": 'set fine_tune_checkpoint_type: "detection" or "full" instead',
    "merge_multiple_label_boxes": "each box has one class here; repeat a box for each of its classes",
    "use_multiclass_scores": "records with soft labels are not read; leave it out",
}


def build_train_options(
    train_config: TrainConfig, *, log_every: int = 20, checkpoint_every: int = 0, steps_per_call: int = 1
) -> TrainOptions:
    """Turn a `train_config` into the loop's options.

    Args:
        train_config: the message; its optimizer is read by `build_optimizer`.
        log_every: steps between reports.
        checkpoint_every: steps between checkpoints; 0: a tenth of the training, of at most 1000 steps.
        steps_per_call: updates in one call of the compiled function.

    Raises:
        ConfigError: when a field cannot be followed, or `num_steps` is missing.
    """
    _refuse(train_config)
    _warn(train_config)
    steps = train_config.num_steps
    if steps < 1:
        raise ConfigError(
            "expected the number of updates, found 0, which would train without end. Set num_steps.",
            where="train_config.num_steps",
        )
    return TrainOptions(
        num_steps=steps,
        log_every=log_every,
        checkpoint_every=checkpoint_every or max(1, min(1000, steps // 10)),
        keep_checkpoint_every_n_hours=train_config.keep_checkpoint_every_n_hours,
        steps_per_call=steps_per_call,
        gradient_clipping_by_norm=train_config.gradient_clipping_by_norm,
        bias_grad_multiplier=train_config.bias_grad_multiplier,
        add_regularization_loss=train_config.add_regularization_loss,
        update_trainable_variables=tuple(train_config.update_trainable_variables),
        freeze_variables=tuple(train_config.freeze_variables),
        summarize_gradients=train_config.summarize_gradients,
    )


def fine_tune_type(train_config: TrainConfig) -> str:
    """Return what part of `fine_tune_checkpoint` to restore, in the words of `fine_tune_checkpoint_type`.

    The old `from_detection_checkpoint` decides where the type is not given.

    Raises:
        ConfigError: for a checkpoint of TensorFlow 1.
    """
    if train_config.fine_tune_checkpoint_version != CheckpointVersion.V2:
        raise ConfigError(
            "expected V2, an object-based checkpoint, found V1 (the default of the field). Set"
            " fine_tune_checkpoint_version: V2 if the checkpoint is one of TensorFlow 2.",
            where="train_config.fine_tune_checkpoint_version",
        )
    old = "detection" if train_config.from_detection_checkpoint else "classification"
    return train_config.fine_tune_checkpoint_type or old


def _changed(train_config: TrainConfig, name: str) -> bool:
    return bool(getattr(train_config, name) != getattr(TrainConfig(), name))


def _refuse(train_config: TrainConfig) -> None:
    for name, instead in REFUSED.items():
        if _changed(train_config, name):
            raise ConfigError(
                f"expected {name} to be left out, found {getattr(train_config, name)}: {instead}.",
                where=f"train_config.{name}",
            )


def _warn(train_config: TrainConfig) -> None:
    idle = [f"{name} ({why})" for name, why in WITHOUT_EFFECT.items() if _changed(train_config, name)]
    if idle:
        _logger.warning("train_config: without effect here: %s", "; ".join(idle))
