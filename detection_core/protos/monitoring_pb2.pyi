from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Monitoring(_message.Message):
    __slots__ = ("mlflow", "wandb", "metric_lines", "histograms_every_steps", "profile")
    class Mlflow(_message.Message):
        __slots__ = ("tracking_uri", "experiment", "run_name")
        TRACKING_URI_FIELD_NUMBER: _ClassVar[int]
        EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
        RUN_NAME_FIELD_NUMBER: _ClassVar[int]
        tracking_uri: str
        experiment: str
        run_name: str
        def __init__(self, tracking_uri: _Optional[str] = ..., experiment: _Optional[str] = ..., run_name: _Optional[str] = ...) -> None: ...
    class Wandb(_message.Message):
        __slots__ = ("project", "entity", "run_name")
        PROJECT_FIELD_NUMBER: _ClassVar[int]
        ENTITY_FIELD_NUMBER: _ClassVar[int]
        RUN_NAME_FIELD_NUMBER: _ClassVar[int]
        project: str
        entity: str
        run_name: str
        def __init__(self, project: _Optional[str] = ..., entity: _Optional[str] = ..., run_name: _Optional[str] = ...) -> None: ...
    class Profile(_message.Message):
        __slots__ = ("first_step", "steps")
        FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
        STEPS_FIELD_NUMBER: _ClassVar[int]
        first_step: int
        steps: int
        def __init__(self, first_step: _Optional[int] = ..., steps: _Optional[int] = ...) -> None: ...
    MLFLOW_FIELD_NUMBER: _ClassVar[int]
    WANDB_FIELD_NUMBER: _ClassVar[int]
    METRIC_LINES_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAMS_EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    mlflow: Monitoring.Mlflow
    wandb: Monitoring.Wandb
    metric_lines: bool
    histograms_every_steps: int
    profile: Monitoring.Profile
    def __init__(self, mlflow: _Optional[_Union[Monitoring.Mlflow, _Mapping]] = ..., wandb: _Optional[_Union[Monitoring.Wandb, _Mapping]] = ..., metric_lines: bool = ..., histograms_every_steps: _Optional[int] = ..., profile: _Optional[_Union[Monitoring.Profile, _Mapping]] = ...) -> None: ...
