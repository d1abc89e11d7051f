"""Records of runs on one machine, with as many fields as a test needs."""

from typing import Any

from detection_core.artifacts.run_info import RunInfo, StepInfo

_TEXTS = ("run_id", "pipeline_name", "started", "finished", "settings_text", "workspace")


def step(component: str, state: str = "executed", **fields: Any) -> StepInfo:
    """Return a step named by its component, unless an id is given."""
    return StepInfo(**{"id": component, "component": component, "state": state, **fields})


def record(*steps: StepInfo, status: str = "succeeded", **fields: Any) -> RunInfo:
    """Return a record of a run; texts that are not given are empty."""
    return RunInfo(**{**dict.fromkeys(_TEXTS, ""), "status": status, "steps": steps, **fields})
