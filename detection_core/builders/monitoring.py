"""Where a training is followed, from `train_config.monitoring`."""

from __future__ import annotations

from detection_core.loggers.open_loggers import TRACKERS, LoggerOptions
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
    trackers = {
        name: {field.name: getattr(tracker, field.name) for field in tracker.DESCRIPTOR.fields}
        for name in TRACKERS
        if message.HasField(name)
        for tracker in [getattr(message, name)]
    }
    return LoggerOptions(trackers=trackers, metric_lines=message.metric_lines)
