"""Contract of Pusher."""

import dataclasses
from typing import Annotated

from component_specs.annotations import (
    BLESSING,
    EVALUATION,
    MODEL,
    PUSHED_MODEL,
    STATISTICS,
    TFLITE_MODEL,
    Input,
    Output,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PusherJob:
    """Publish a blessed detector as a new version."""

    model: Annotated[str, Input(MODEL)]
    blessing: Annotated[str, Input(BLESSING)]
    evaluation: Annotated[str, Input(EVALUATION)]
    pushed_model: Annotated[str, Output(PUSHED_MODEL)]
    push_destination: str
    quantized_blessing: Annotated[str, Input(BLESSING, optional=True)] = ""
    tflite: Annotated[str, Input(TFLITE_MODEL, optional=True)] = ""
    tflite_blessing: Annotated[str, Input(BLESSING, optional=True)] = ""
    statistics: Annotated[str, Input(STATISTICS, optional=True)] = ""
    keep_versions: int = 5
    sign_key: str = ""
    register: str = ""
    registry: str = ""
    run_key: str = ""
    baseline_version: str = ""
    push_token: str = ""
    code_version: str = ""
