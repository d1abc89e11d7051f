"""Read everything about a training from a config, except detector and examples.

It covers the loop's options, loggers, validation, optimizer, fine-tuning and the training's identity. Its
outline is printed before data exist.
"""

import copy
import dataclasses

from detection_core.artifacts.evaluation import MAP
from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.builders.augment import build_augmentations
from detection_core.builders.detector import configured_model, find_quantization_options
from detection_core.builders.input_pipeline import build_label_targets
from detection_core.builders.oneof import from_fields
from detection_core.builders.optimizer import build_optimizer
from detection_core.config.load import format_pipeline_config
from detection_core.config.messages.training import in_steps
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.detectors.family import extractor_type, model_message
from detection_core.errors import ConfigError
from detection_core.loggers.open_loggers import NO_LOGGERS, TRACKERS, LoggerOptions
from detection_core.ops.tile_options import TileOptions
from detection_core.optimizers.optimization import Optimization
from detection_core.protos import precision_pb2 as proto
from detection_core.protos.train_pb2 import CheckpointVersion, TrainConfig
from detection_core.protos.validation_pb2 import Validation
from detection_core.storage import files
from detection_core.training.actions import ProfileOptions
from detection_core.training.distribution import Reproducibility
from detection_core.training.loop_options import CHECKPOINT_MINUTES, TrainOptions
from detection_core.training.precision import Precision
from detection_core.training.validation import ValidationOptions
from detection_core.zoo.starting_points import ZOO


def build_train_options(
    train_config: TrainConfig, *, log_every: int = 20, checkpoint_minutes: float = CHECKPOINT_MINUTES
) -> TrainOptions:
    """Convert a checked `train_config` to the loop's options.

    Checkpoints are a tenth of the training apart, at most 1000 steps.

    Args:
        train_config: the message; `build_optimizer` reads its optimizer.
        log_every: steps between reports.
        checkpoint_minutes: time after which one is written at any step; 0: by steps alone.

    Raises:
        ConfigError: when the time is below 0.
    """
    if not checkpoint_minutes >= 0:
        raise ConfigError(
            f"expected 0, for checkpoints by steps alone, or more, found {checkpoint_minutes}",
            where="checkpoint_minutes",
        )
    # The device decides about the precision where the config leaves it open.
    return from_fields(
        TrainOptions,
        train_config,
        log_every=log_every,
        checkpoint_minutes=checkpoint_minutes,
        checkpoint_every=max(1, min(1000, train_config.num_steps // 10)),
        precision=Precision.FLOAT32,
        histograms_every_steps=train_config.monitoring.histograms_every_steps,
    )


def build_profile(train_config: TrainConfig) -> ProfileOptions | None:
    """Return which updates to trace; None: none."""
    message = train_config.monitoring
    if not message.HasField("profile"):
        return None
    return from_fields(ProfileOptions, message.profile)


def build_loggers(train_config: TrainConfig) -> LoggerOptions:
    """Read the loggers of a checked config."""
    message = train_config.monitoring
    trackers = {
        name: {field.name: getattr(tracker, field.name) for field in tracker.DESCRIPTOR.fields}
        for name in TRACKERS
        if message.HasField(name)
        for tracker in [getattr(message, name)]
    }
    return LoggerOptions(trackers=trackers, metric_lines=message.metric_lines)


PICTURES = 4
"""Images drawn at each validation if `eval_config.num_visualizations` is unset."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationPlan:
    """The validation of a training, from its config.

    Attributes:
        options: schedule, score and consequences.
        max_images: largest number of images, the same each time; 0: all.
        writes_best: whether the best weights are written, not the last ones.
        pictures: number of images drawn at each validation, the same each time.
        tiles: detect also in tiles; None: in whole images only.
    """

    options: ValidationOptions
    max_images: int
    writes_best: bool
    pictures: int = PICTURES
    tiles: TileOptions | None = None


def build_validation(config: CheckedConfig, *, checkpoint_every: int) -> ValidationPlan | None:
    """Read the validation of a training from a checked config.

    It is on if `train_config.validation` is set, or `eval_config.eval_interval_secs` as for the Object
    Detection API's evaluation beside a training.

    Args:
        config: its input readers are filled in.
        checkpoint_every: updates between checkpoints, and by default between validations.

    Returns:
        None if it is off.
    """
    message, evaluation = config.train_config.validation, config.eval_config
    seconds = evaluation.eval_interval_secs if evaluation.HasField("eval_interval_secs") else 0
    if not config.train_config.HasField("validation") and not (seconds and config.eval_input_reader):
        return None
    minutes = message.every_minutes or (0.0 if message.every_steps else seconds / 60)
    objective = {metric.name: metric.weight for metric in message.metric}
    return ValidationPlan(
        options=from_fields(
            ValidationOptions,
            message,
            every_steps=message.every_steps or (0 if minutes else checkpoint_every),
            every_minutes=minutes,
            objective=objective or {MAP: 1.0},
            averaged=evaluation.use_moving_averages,
        ),
        max_images=message.max_images,
        writes_best=message.weights == Validation.BEST,
        pictures=evaluation.num_visualizations if evaluation.HasField("num_visualizations") else PICTURES,
        tiles=TileOptions(size=message.tile_size, overlap=message.tile_overlap)
        if message.tile_size
        else None,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """The plan of a training, from its config.

    Attributes:
        options: of the loop: length and intervals.
        batch_size: images per update, over all replicas.
        label_map_path: of the train_input_reader.
        keeps_average: whether the optimizer keeps a moving average of the weights.
        writes_average: whether the average, if kept, is written and evaluated.
        validation: how the detector is validated during training; None: not at all.
        precision: the network's compute precision; None: the one that is fast on the device.
        reproducibility: which random draws repeat in every training of the config.
        loggers: where the training is logged besides its own files.
        profile: which updates are traced; None: none.
    """

    options: TrainOptions
    batch_size: int
    label_map_path: str
    keeps_average: bool
    writes_average: bool
    validation: ValidationPlan | None = None
    precision: Precision | None = None
    reproducibility: Reproducibility = dataclasses.field(default_factory=Reproducibility)
    loggers: LoggerOptions = NO_LOGGERS
    profile: ProfileOptions | None = None

    def computing_in(self, precision: Precision) -> "TrainPlan":
        """Return the plan for a model built in a precision."""
        return dataclasses.replace(self, options=dataclasses.replace(self.options, precision=precision))


def build_train_plan(
    config: CheckedConfig, *, log_every: int = 20, checkpoint_minutes: float = CHECKPOINT_MINUTES
) -> TrainPlan:
    """Read the plan of a training from a checked config.

    Args:
        config: its `train_config`, `train_input_reader` and `eval_config` are read.
        log_every: steps between reports.
        checkpoint_minutes: time after which a checkpoint is written at any step; 0: by steps alone.

    Raises:
        ConfigError: when the time is below 0.
    """
    train = config.train_config
    options = build_train_options(train, log_every=log_every, checkpoint_minutes=checkpoint_minutes)
    return TrainPlan(
        options=options,
        batch_size=train.batch_size,
        label_map_path=config.train_input_reader.label_map_path,
        keeps_average=train.optimizer.use_moving_average,
        writes_average=config.eval_config.use_moving_averages,
        validation=build_validation(config, checkpoint_every=options.checkpoint_every),
        precision=build_precision(train),
        reproducibility=build_reproducibility(train),
        loggers=build_loggers(train),
        profile=build_profile(train),
    )


def build_precision(train_config: TrainConfig) -> Precision | None:
    """Return the configured compute precision; None: the one that is fast on the device."""
    name = proto.Precision.Name(train_config.precision)
    return None if name == "AUTO" else Precision[name]


def build_reproducibility(train_config: TrainConfig) -> Reproducibility:
    """Return which random draws repeat in every training of a config."""
    seed, deterministic = train_config.seed, train_config.deterministic
    return Reproducibility(
        seed=seed, deterministic=deterministic, seeds_weights=deterministic or train_config.HasField("seed")
    )


def build_optimization(config: CheckedConfig) -> Optimization:
    """Build the optimizer of a config's `train_config`; call it in the scope of the training's strategy."""
    return build_optimizer(config.train_config.optimizer)


_MEASURING = (
    "eval_interval_secs", "metrics_set", "use_moving_averages", "include_metrics_per_category",
    "all_metrics_per_category", "super_categories", "recall_lower_bound", "recall_upper_bound",
    "skip_predictions_for_unlabeled_class",
)  # fmt: skip
"""Fields of `eval_config` that affect validation; the others only affect drawing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingIdentity:
    """The identity of a training: its config and its input files.

    Attributes:
        text: the config without paths and loggers. Without validation, it also omits the evaluation's
            settings.
        inputs: glob patterns of the input files: the label map, then the records; with validation, also
            those of the validation data.
    """

    text: str
    inputs: tuple[str, ...]


def build_training_identity(config: CheckedConfig) -> TrainingIdentity:
    """Return the identity of a config's training; the config is not changed.

    The text names folders of unfinished work, which must be found again after an update of detflow. So it
    never changes for existing configs.
    """
    about = copy.deepcopy(config)
    reader = about.train_input_reader
    inputs = (files.escape(reader.label_map_path), *reader.tf_record_input_reader.input_path)
    reader.ClearField("label_map_path")
    reader.tf_record_input_reader.ClearField("input_path")
    about.train_config.ClearField("fine_tune_checkpoint")
    about.train_config.ClearField("monitoring")
    for field in ("eval_config", "eval_input_reader"):
        about.ClearField(field)
    if build_validation(config, checkpoint_every=1) is not None:
        # The written weights then depend on the validation data and metrics.
        evaluated = config.eval_input_reader[0]
        inputs += (files.escape(evaluated.label_map_path), *evaluated.tf_record_input_reader.input_path)
        about.eval_config.CopyFrom(config.eval_config)
        for present, _ in config.eval_config.ListFields():
            if present.name not in _MEASURING:
                about.eval_config.ClearField(present.name)
    return TrainingIdentity(text=format_pipeline_config(about), inputs=inputs)


def freezes_batch_norm(config: CheckedConfig) -> bool:
    """Return whether a training normalises with its initial batch-norm statistics."""
    return bool(getattr(model_message(config.model)[0], "freeze_batchnorm", False))


def build_fine_tune_options(config: CheckedConfig) -> FineTuneOptions:
    """Return what a checked config restores from its `fine_tune_checkpoint`.

    The old `from_detection_checkpoint` decides if `fine_tune_checkpoint_type` is unset. A detector of the
    model zoo is object-based; without a type, everything that fits is restored.
    """
    train = config.train_config
    of_zoo = train.fine_tune_checkpoint.startswith(ZOO)
    old = "detection" if train.from_detection_checkpoint else "classification"
    return FineTuneOptions(
        kind=train.fine_tune_checkpoint_type or ("full" if of_zoo else old),
        named=train.fine_tune_checkpoint_version == CheckpointVersion.V1 and not of_zoo,
        extractor=extractor_type(model_message(config.model)[0]),
        heads=train.load_all_detection_checkpoint_vars,
    )


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
    if config.train_config.HasField("optimizer"):
        # Any number of updates works here: lengths in epochs need data.
        build_optimization(in_steps(config, _ANY_UPDATES))
