"""Where a training is followed, from `train_config.monitoring`."""

from __future__ import annotations

from detection_core.loggers.mlflow_run import MlflowOptions
from detection_core.loggers.open_loggers import LoggerOptions
from detection_core.loggers.wandb_run import WandbOptions
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.training.profiling import ProfileOptions


def build_profile(train_config: TrainConfig) -> ProfileOptions | None:
    """Return which updates a config wants to be traced; None: none."""
    message = train_config.monitoring
    if not message.HasField("profile"):
        return None
    return ProfileOptions(first_step=message.profile.first_step, steps=message.profile.steps)


def build_loggers(train_config: TrainConfig) -> LoggerOptions:
    """Read what a checked config says of where its training is followed."""
    message = train_config.monitoring
    mlflow = MlflowOptions(
        tracking_uri=message.mlflow.tracking_uri,
        experiment=message.mlflow.experiment,
        run_name=message.mlflow.run_name,
    )
    wandb = WandbOptions(
        project=message.wandb.project, entity=message.wandb.entity, run_name=message.wandb.run_name
    )
    return LoggerOptions(
        trackers=(
            *([mlflow] if message.HasField("mlflow") else []),
            *([wandb] if message.HasField("wandb") else []),
        ),
        metric_lines=message.metric_lines,
    )
