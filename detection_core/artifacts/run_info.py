"""Record of a local run, step by step: run.json, and the names of the files beside it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from detection_core.artifacts.json_file import JsonFile

RUN_STATUSES = ("running", "succeeded", "failed", "stopped")
NOT_RUN, RUNNING, EXECUTED, CACHED, FAILED = "not run", "running", "executed", "cached", "failed"
STEP_STATES = (NOT_RUN, RUNNING, EXECUTED, CACHED, FAILED)
"""States of a step in a local run; single steps are never cancelled, and there are no conditions."""

SETTINGS_FILE, LOG_FILE, REPORT_FILE = "settings.yaml", "log.txt", "report.html"
"""Other files in a run's folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepInfo:
    """One step of a run.

    Attributes:
        id: name of the step in the DAG, such as `quantized_evaluator`.
        component: name of the component's folder, such as `evaluator`.
        state: `not run`, `running`, `executed`, `cached` or `failed`.
        started: ISO 8601 time; "" for a step that did not run.
        seconds: duration; 0 for a step that did not run.
        outputs: name of the output (a field of the Job) to its folder.
        error: the error; "" for none.
        peak_memory_bytes: peak memory of the run's process up to the end of the step; 0 if unknown.
    """

    id: str
    component: str
    state: str
    started: str = ""
    seconds: float = 0.0
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    error: str = ""
    peak_memory_bytes: int = 0

    def __post_init__(self) -> None:
        if self.state not in STEP_STATES:
            expected = ", ".join(STEP_STATES)
            raise ValueError(f"state of step {self.id}: expected one of {expected}, found {self.state!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunInfo:
    """A run of the pipeline.

    Attributes:
        run_id: unique name of the run.
        pipeline_name: name of the pipeline.
        started: ISO 8601 time.
        finished: ISO 8601 time; "" while it runs.
        status: `running`, `succeeded`, `failed` or `stopped`.
        settings_text: the settings as run, YAML.
        workspace: folder that holds the run's artifacts.
        steps: in the order of the DAG.
        checks: data, spans, code and baseline that the run determined before it began.
        parameters: parameters that override the settings for this run.
        scheduled_time: RFC 3339 time of its slot in a schedule; "" for none.
    """

    run_id: str
    pipeline_name: str
    started: str
    finished: str
    status: str
    settings_text: str
    workspace: str
    steps: tuple[StepInfo, ...] = ()
    checks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    scheduled_time: str = ""

    def __post_init__(self) -> None:
        if self.status not in RUN_STATUSES:
            raise ValueError(
                f"status of run {self.run_id}: expected one of {RUN_STATUSES}, found {self.status!r}"
            )


RUN = JsonFile(
    name="run.json",
    content=RunInfo,
    writer="`detflow run`",
    remedy="restore the file, or remove its folder",
    version_key="format_version",
    indent=2,
    sort_keys=True,
    allow_nan=True,
)
