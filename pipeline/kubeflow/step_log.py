"""The log of a step, wherever the server keeps it."""

from __future__ import annotations

import json
import logging
import re
import urllib.parse
from collections.abc import Iterator, Sequence

from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.step_state import StepState

_logger = logging.getLogger(__name__)

_LINES = 25
_REFUSAL = {"error_message", "error_details"}
# As glog writes: I1122 13:37:00.123456  30 launcher_v2.go:190] publish success.
_LAUNCHER = re.compile(r"[IWEF]\d{4} .*\.go:\d+\]")


def step_log(connection: Connection, run_id: str, step: StepState, *, launcher: bool = False) -> str:
    """Return the end of a step's log; empty where the server has none (not begun, or not kept).

    Args:
        connection: to the server.
        run_id: of the run.
        step: of the run.
        launcher: whether to leave in the lines of Kubeflow's launcher, which starts the step in its pod.
    """
    for path in _paths(connection, run_id, step.pods):
        try:
            text = connection.get_text(f"reading the log of {step.name}", path, end_only=True)
        except ClusterError as e:
            _logger.debug("no log at %s: %s", path, e)
            continue
        if _is_refusal(text):
            _logger.debug("no log at %s: %s", path, text)
            continue
        lines = text.strip().splitlines()
        if not launcher:
            # A driver logs through glog only: return all lines.
            lines = [line for line in lines if not _LAUNCHER.match(line)] or lines
        if lines:
            return "\n".join(lines[-_LINES:])
    return ""


def no_log(step: StepState, link: str) -> str:
    """Say why there is no log of a step, and where to look."""
    reason = {
        "cached": "was not run: its outputs are those of an earlier run, from the cache; it has no log here",
        "not run": "was not run; it has no log",
        "skipped": "was skipped; it has no log",
        "pending": f"has not begun; it has no log yet, see {link}",
        "running": f"has no log here yet; that of its pod is shown at {link}",
    }.get(step.state)
    return f"{step.name} {reason}" if reason else f"the server keeps no log of {step.name}; see {link}"


def _is_refusal(text: str) -> bool:
    """Tell whether an answer is not a log: a JSON error with status 200, or a login page."""
    if text.lstrip()[:15].lower().startswith(("<!doctype html", "<html")):
        return True
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and "error_message" in found and found.keys() <= _REFUSAL


def _paths(connection: Connection, run_id: str, pods: Sequence[str]) -> Iterator[str]:
    """Yield where the logs of pods may be: at the API, else at the user interface, which hides that path."""
    run = urllib.parse.quote(run_id, safe="")
    for pod in pods:
        yield f"/apis/v1alpha1/runs/{run}/nodes/{urllib.parse.quote(pod, safe='')}/log"
    for pod in pods:
        query = {"podname": pod, "runid": run_id, "podnamespace": connection.namespace or ""}
        yield "/k8s/pod/logs?" + urllib.parse.urlencode({k: v for k, v in query.items() if v})
