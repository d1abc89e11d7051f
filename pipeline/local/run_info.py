"""What a run did, step by step: written by the backends, read by `detflow runs` and the report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from pipeline.step_states import LOCAL_STATES

RUN_STATUSES = ("running", "succeeded", "failed", "stopped")
FORMAT_VERSION = 1
_LOCAL_WORDS = ", ".join(LOCAL_STATES)

RUN_FILE, SETTINGS_FILE, LOG_FILE, REPORT_FILE = "run.json", "settings.yaml", "log.txt", "report.html"
"""Files of a run's folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepInfo:
    """One step of a run.

    Attributes:
        id: name of the step in the DAG, such as `quantized_evaluator`.
        component: name of the component's folder, such as `evaluator`.
        state: one of `pipeline.step_states.LOCAL_STATES`.
        started: ISO 8601 time; "" for a step that did not run.
        seconds: how long it took; 0 for a step that did not run.
        outputs: name of the output (a field of the Job) to its folder.
        error: what went wrong; "" when nothing did.
    """

    id: str
    component: str
    state: str
    started: str = ""
    seconds: float = 0.0
    outputs: dict[str, str] = dataclasses.field(default_factory=dict)
    error: str = ""

    def __post_init__(self) -> None:
        if self.state not in LOCAL_STATES:
            raise ValueError(f"state of step {self.id}: expected one of {_LOCAL_WORDS}, found {self.state!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunInfo:
    """A run of the pipeline.

    Attributes:
        run_id: unique name of the run.
        pipeline_name: name of the pipeline.
        started: ISO 8601 time.
        finished: ISO 8601 time; "" while it runs.
        status: one of `RUN_STATUSES`.
        settings_text: the settings as run, YAML.
        workspace: folder that holds the run's artifacts.
        steps: in the order of the DAG.
        checks: what the run found out before it began, see `pipeline.run_checks`: which data, spans, code and
            baseline it stands for.
        parameters: what was given for this run alone, over its settings.
        scheduled_time: RFC 3339, the slot of a schedule that it was made for; "" for none.
        format_version: of the run.
    """

    run_id: str
    pipeline_name: str
    started: str
    finished: str
    status: str
    settings_text: str
    workspace: str
    steps: tuple[StepInfo, ...] = ()
    checks: dict[str, str] = dataclasses.field(default_factory=dict)
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    scheduled_time: str = ""
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        if self.status not in RUN_STATUSES:
            raise ValueError(
                f"status of run {self.run_id}: expected one of {RUN_STATUSES}, found {self.status!r}"
            )

    def to_json(self) -> str:
        """Return the run as JSON text, which `from_json` reads back."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunInfo:
        """Read a run from JSON text; fields of later versions that are not known here are passed over.

        Raises:
            ValueError: when the text is not the JSON of a run, or one of a newer format.
        """
        try:
            data = json.loads(text)
            version = data.get("format_version", FORMAT_VERSION)
            if isinstance(version, int) and version > FORMAT_VERSION:
                raise ValueError(
                    f"expected format_version {FORMAT_VERSION}, found {version} of a newer detflow"
                )
            steps = tuple(StepInfo(**_known(StepInfo, step)) for step in data.pop("steps", []))
            return cls(**_known(cls, data), steps=steps)
        except (TypeError, AttributeError, RecursionError, json.JSONDecodeError) as e:
            raise ValueError(f"expected the JSON of a run, found something else ({e})") from e


def _known(info_type: type, data: dict[str, Any]) -> dict[str, Any]:
    kinds = {field.name: str(field.type) for field in dataclasses.fields(info_type) if field.name != "steps"}
    known = {name: value for name, value in data.items() if name in kinds}
    for name, value in known.items():
        if not _KINDS[kinds[name]](value):
            raise TypeError(f"{name}: expected {kinds[name]}, found {value!r:.80}")
    return known


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


# By the annotation of a field: what tells whether a value is of it.
_KINDS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: isinstance(value, int),
    "float": lambda value: isinstance(value, int | float),
    "dict[str, str]": _is_texts,
    "dict[str, Any]": lambda value: isinstance(value, dict),
}
