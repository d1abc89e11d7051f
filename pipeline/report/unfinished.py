"""Where a step that is under way has what it leaves in the end."""

from __future__ import annotations

import datetime
import os

from detection_core.artifacts.model_run import HISTORY
from detection_core.artifacts.run_info import RunInfo


def unfinished_training(run: RunInfo, component: str) -> str:
    """Return the folder of the training that a run is at; "" where the component is not under way.

    Args:
        run: a run on this machine.
        component: one that trains.
    """
    step = next((s for s in run.steps if s.component == component and s.state == "running"), None)
    work = os.path.join(run.workspace, "work")
    if step is None or not os.path.isdir(work):
        return ""
    began = _seconds(step.started)
    histories = [HISTORY.path(os.path.join(work, name)) for name in os.listdir(work)]
    written = {path: os.path.getmtime(path) for path in histories if os.path.exists(path)}
    newest = max(written, key=lambda path: written[path], default="")
    return os.path.dirname(newest) if newest and written[newest] >= began else ""


def _seconds(moment: str) -> float:
    try:
        return datetime.datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
