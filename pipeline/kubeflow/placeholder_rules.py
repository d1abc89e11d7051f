"""Which parameters of a compiled pipeline may hold placeholders, which its RunChecker fills in each run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from components.run_checker import placeholders
from components.run_checker.run import FILLED
from detection_core.errors import ConfigError

SCHEDULE_TIME = "{{$.pipeline_job_schedule_time_utc}}"
"""What the driver fills, where it is the whole constant of a task's parameter."""


def filled_parameters(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters whose placeholders are filled before any step but RunChecker sees them.

    Args:
        spec: of the pipeline, as in the file or as the server gives it back.
    """
    root = spec.get("pipeline_spec", spec).get("root", {})
    taken: dict[str, list[bool]] = {}
    for task in root.get("dag", {}).get("tasks", {}).values():
        inputs = task.get("inputs", {}).get("parameters", {})
        fills = any(s.get("runtimeValue", {}).get("constant") == SCHEDULE_TIME for s in inputs.values())
        for field, source in inputs.items():
            name = source.get("componentInputParameter")
            taken.setdefault(name, []).append(fills and field in FILLED)
    return frozenset(name for name, filled in taken.items() if name and all(filled))


def check_placeholders(parameters: Mapping[str, Any], filled: Collection[str], where: str) -> None:
    """Refuse placeholders that no step would fill.

    Args:
        parameters: values of a run or a schedule.
        filled: the parameters in which they are filled.
        where: file or schedule, for messages.

    Raises:
        ConfigError: naming parameter and placeholder.
    """
    for name, value in parameters.items():
        if not isinstance(value, str) or not placeholders.has_placeholder(value):
            continue
        placeholders.check_placeholders(value, f"{where}: {name}")
        if name not in filled:
            there = f"in {', '.join(sorted(filled))} alone" if filled else "in no parameter"
            raise ConfigError(
                f"expected no placeholder, found {value!r}; this pipeline fills them {there}: give the value"
                " itself, or compile the pipeline with this version of detflow",
                where=f"{where}: {name}",
            )
