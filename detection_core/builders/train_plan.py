"""What a training needs of a pipeline.config beside detector, examples and first weights."""

from __future__ import annotations

import dataclasses

from detection_core.builders.monitoring import build_loggers, build_profile
from detection_core.builders.optimizer import build_optimizer
from detection_core.builders.train_options import build_train_options
from detection_core.builders.validation_plan import ValidationPlan, build_validation
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.loggers.open_loggers import NO_LOGGERS, LoggerOptions
from detection_core.optimizers.optimization import Optimization
from detection_core.protos import precision_pb2 as proto
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.training.loop_options import CHECKPOINT_MINUTES, TrainOptions
from detection_core.training.precision import Precision
from detection_core.training.profiling import ProfileOptions
from detection_core.training.reproducible import Reproducibility


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """What a config says of a training.

    Attributes:
        options: of the loop: how long, how often.
        batch_size: images an update, over all replicas.
        label_map_path: of the train_input_reader.
        keeps_average: the optimizer keeps a moving average of the weights.
        writes_average: the average is what is written and evaluated, where one is kept.
        validation: how the detector is measured on the way; None: it is not.
        precision: what the network shall compute in; None: what the device is fast in.
        reproducibility: what is drawn at random alike in every training of the config.
        loggers: where the training is followed beside its own files.
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

    def computing_in(self, precision: Precision) -> TrainPlan:
        """Return the plan for a model that was built to compute in a precision."""
        return dataclasses.replace(self, options=dataclasses.replace(self.options, precision=precision))


def build_train_plan(
    config: CheckedConfig, *, log_every: int = 20, checkpoint_minutes: float = CHECKPOINT_MINUTES
) -> TrainPlan:
    """Read what a checked config says of a training.

    Args:
        config: its `train_config`, `train_input_reader` and `eval_config` are read.
        log_every: steps between reports.
        checkpoint_minutes: time after which a checkpoint is written whatever the step; 0: by steps alone.

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
    """Return what a config asks to compute in; None for what the device is fast in."""
    name = proto.Precision.Name(train_config.precision)
    return None if name == "AUTO" else Precision[name]


def build_reproducibility(train_config: TrainConfig) -> Reproducibility:
    """Return what a config wants to be alike in every training of it."""
    seed, deterministic = train_config.seed, train_config.deterministic
    return Reproducibility(
        seed=seed, deterministic=deterministic, seeds_weights=deterministic or train_config.HasField("seed")
    )


def build_optimization(config: CheckedConfig) -> Optimization:
    """Build the optimizer of a config's `train_config`; call it in the scope of the training's strategy."""
    return build_optimizer(config.train_config.optimizer)
