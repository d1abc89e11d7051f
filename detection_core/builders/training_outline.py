"""A pipeline.config to what a person is told of a training before there are data."""

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
    """What a config chose for a training, under the names of its messages.

    Attributes:
        optimizer: arm of the optimizer; "" where there is none.
        schedule: arm of its learning rate; "" where there is none.
        num_steps: updates; 0 where that is not said.
        num_epochs: passes over the examples; 0 where that is not said.
        batch_size: images an update.
        augmentations: arms of the augmentation steps, in their order.
        quantization: how the detector is quantized; None where it is not.
        precision: what the network shall compute in; None for what the device is fast in.
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
    """Read what a checked config chose for a training."""
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
    """Build what a training needs beside its detector and its data, to see that it can be built."""
    configured_model(config).build_resizer()
    build_augmentations(config.train_config.data_augmentation_options)
    build_label_targets(config)
    build_decoding(config.train_input_reader, score_columns(config.model))
    if config.train_config.HasField("optimizer"):
        # Any number of updates will do: lengths in epochs are known when there are data.
        build_optimization(in_steps(config, _ANY_UPDATES))
