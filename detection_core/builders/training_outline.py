"""Outline of a training, printed before data exist."""

from __future__ import annotations

import dataclasses

from detection_core.builders.augment import build_augmentations
from detection_core.builders.detector import configured_model, find_quantization_options
from detection_core.builders.input_pipeline import build_decoding, build_label_targets, score_columns
from detection_core.builders.train_plan import build_optimization, build_precision
from detection_core.config.messages.epochs import in_steps
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.detectors.quantization import QuantizationOptions
from detection_core.training.precision import Precision

_ANY_UPDATES = 1_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOutline:
    """A config's choices for a training, under the names of its messages.

    Attributes:
        optimizer: type of the optimizer; "" without one.
        schedule: type of its learning rate; "" without one.
        num_steps: updates; 0 if unset.
        num_epochs: passes over the examples; 0 if unset.
        batch_size: images per update.
        augmentations: types of the augmentation steps, in order.
        quantization: how the detector is quantized; None: it is not.
        precision: the network's compute precision; None: the one that is fast on the device.
    """

    optimizer: str
    schedule: str
    num_steps: int
    num_epochs: float
    batch_size: int
    augmentations: tuple[str, ...]
    quantization: QuantizationOptions | None
    precision: Precision | None = None


def build_training_outline(config: CheckedConfig) -> TrainingOutline:
    """Read the outline of a training from a checked config."""
    train = config.train_config
    arm = train.optimizer.WhichOneof("optimizer") if train.HasField("optimizer") else None
    rate = getattr(train.optimizer, arm).learning_rate.WhichOneof("learning_rate") if arm else None
    steps = (option.WhichOneof("preprocessing_step") for option in train.data_augmentation_options)
    return TrainingOutline(
        optimizer=arm or "",
        schedule=rate or "",
        num_steps=train.num_steps,
        num_epochs=train.num_epochs,
        batch_size=train.batch_size,
        augmentations=tuple(map(str, steps)),
        quantization=find_quantization_options(config),
        precision=build_precision(train),
    )


def build_without_data(config: CheckedConfig) -> None:
    """Build everything that a training needs besides detector and data, to check that this succeeds."""
    configured_model(config).build_resizer()
    build_augmentations(config.train_config.data_augmentation_options)
    build_label_targets(config)
    build_decoding(config.train_input_reader, score_columns(config.model))
    if config.train_config.HasField("optimizer"):
        # Any number of updates works here: lengths in epochs need data.
        build_optimization(in_steps(config, _ANY_UPDATES))
