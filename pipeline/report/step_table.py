"""How the steps of a run ended and how long they took."""

from __future__ import annotations

from typing import Any

from detection_core.artifacts.run_info import RunInfo
from detection_core.report.formats import seconds_between


def step_summary(run: RunInfo) -> dict[str, Any]:
    """Return the steps with their time in percent of the longest one's, and how long everything took."""
    longest = max((s.seconds for s in run.steps), default=0.0) or 1.0
    rows = [
        {
            "id": s.id,
            "state": s.state,
            "seconds": s.seconds,
            "percent": round(100 * s.seconds / longest),
            "error": s.error,
            "outputs": s.outputs,
        }
        for s in run.steps
    ]
    states = [s.state for s in run.steps]
    return {
        "rows": rows,
        "seconds": seconds_between(run.started, run.finished) or sum(s.seconds for s in run.steps),
        "executed": states.count("executed"),
        "cached": states.count("cached"),
        "failed": states.count("failed"),
    }
