"""Placeholders in parameters of a compiled pipeline, which its RunChecker fills in each run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from components.run_checker import placeholders
from components.run_checker.run import FILLED
from detection_core.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.kubeflow.connection import Connection

SCHEDULE_TIME = "{{$.pipeline_job_schedule_time_utc}}"
"""Filled by the driver, if it is the whole constant of a task's parameter."""

SCHEDULE_TIME_SINCE = "2.17"
"""First server version that fills it; 2.16.0 and 2.16.1 insert an empty text."""


def filled_parameters(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters whose placeholders RunChecker fills before any other step reads them."""
    root = spec.get("pipeline_spec", spec).get("root", {})
    taken: dict[str, list[bool]] = {}
    for task in root.get("dag", {}).get("tasks", {}).values():
        inputs = task.get("inputs", {}).get("parameters", {})
        fills = any(s.get("runtimeValue", {}).get("constant") == SCHEDULE_TIME for s in inputs.values())
        for field, source in inputs.items():
            name = source.get("componentInputParameter")
            taken.setdefault(name, []).append(fills and field in FILLED)
    return frozenset(name for name, filled in taken.items() if name and all(filled))


def schedule_timed(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return parameters whose defaults contain `[[ScheduledTime]]`; `""` stands for a constant with it."""
    root = spec.get("pipeline_spec", spec).get("root", {})
    defaults = {
        name: entry.get("defaultValue")
        for name, entry in root.get("inputDefinitions", {}).get("parameters", {}).items()
    }
    sources = (
        source
        for task in root.get("dag", {}).get("tasks", {}).values()
        for source in task.get("inputs", {}).get("parameters", {}).values()
    )
    constants = any(_is_timed(source.get("runtimeValue", {}).get("constant")) for source in sources)
    return frozenset(name for name, value in defaults.items() if _is_timed(value)) | (
        {""} if constants else set()
    )


def check_schedule_time(
    connection: Connection, parameters: Mapping[str, Any], timed: Collection[str], where: str
) -> None:
    """Refuse `[[ScheduledTime]]` on a server that is known not to pass the scheduled time to a run.

    If the server does not report its version, RunChecker stops the run. `timed` is the result of
    `schedule_timed`; `where` is the file or the schedule, for messages.

    Raises:
        ConfigError: naming the parameter and the server's version.
    """
    if not connection.is_before(SCHEDULE_TIME_SINCE):
        return
    asking = [*(set(timed) - parameters.keys()), *(n for n, v in parameters.items() if _is_timed(v))]
    if asking:
        name = sorted(asking)[-1] or "a constant of the pipeline"
        raise ConfigError(
            f"expected a server {SCHEDULE_TIME_SINCE} or newer for [[ScheduledTime]], found"
            f" {connection.server_version}, which gives no run its time; upgrade the server, or use"
            " [[CurrentTime]] or the value itself",
            where=f"{where}: {name}",
        )


def _is_timed(value: Any) -> bool:
    return isinstance(value, str) and placeholders.asks_for_value(value, ("ScheduledTime",))


def check_placeholders(parameters: Mapping[str, Any], filled: Collection[str], where: str) -> None:
    """Refuse placeholders that no step would fill.

    `filled` has the names of the parameters whose placeholders are filled; `where` is the file or the
    schedule.

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
