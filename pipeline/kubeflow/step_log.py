"""The log of a step, from any place where the server stores it."""

import json
import logging
import re
import urllib.parse
from collections.abc import Iterator, Sequence

from pipeline.kubeflow.api_errors import ClusterError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.step_state import StepState

_logger = logging.getLogger(__name__)

LINES = 25
"""Default number of lines."""

_REFUSAL = {"error_message", "error_details"}
# glog's format: I1122 13:37:00.123456  30 launcher_v2.go:190] publish success.
_GLOG = re.compile(r"([IWEF])\d{4} .*?\.go:\d+\] ?(.*)")
_ERRORS = ("E", "F")


def step_log(
    connection: Connection, run_id: str, step: StepState, *, launcher: bool = False, lines: int = LINES
) -> str:
    """Return the end of a step's log; empty if the server has none (not started, or deleted).

    With `launcher` all messages of Kubeflow's launcher and driver are kept; otherwise only their errors.
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
        found = text.strip().splitlines()
        if not launcher:
            found = list(_own_lines(found, driver=step.driver)) or found
        if found:
            return "\n".join(found[-lines:])
    return ""


def error_in(log: str) -> str:
    """Return the last error that Kubeflow's launcher or driver logged; empty: none."""
    messages = (_GLOG.match(line) for line in reversed(log.splitlines()))
    return next((m[2].strip() for m in messages if m and m[1] in _ERRORS), "")


def _own_lines(lines: Sequence[str], *, driver: bool) -> Iterator[str]:
    """Yield the lines of a step and the errors of Kubeflow, without its other messages.

    A message may continue over lines without a prefix. After the step's end the launcher logs its outputs as
    indented JSON (2.17.0, `component/launcher_v2.go:getExecutorOutputFile`). A driver prints only messages,
    many of them with JSON (`cmd/driver/main.go`).
    """
    inside = False
    for line in lines:
        message = _GLOG.match(line)
        if message:
            wanted = message[1] in _ERRORS
            inside = not wanted and (driver or message[2].endswith(("{", "[")))
            if wanted:
                yield line
        elif inside and (driver or line.startswith((" ", "\t"))):
            continue
        elif inside and line in ("}", "]"):
            inside = False
        else:
            inside = False
            yield line


def no_log(step: StepState, link: str) -> str:
    """Say why there is no log of a step, and where to look."""
    reason = {
        "cached": "was not run: its outputs are those of an earlier run, from the cache; it has no log here",
        "not run": "was not run; it has no log",
        "skipped": "was skipped; it has no log",
        "pending": f"has not begun; it has no log yet, see {link}",
        "waiting for its pod": f"has no log, as its container has not started; see {link}",
        "running": (
            f"has no log here yet; that of its pod is shown at {link} (a server without users reads those of "
            "ended pods only, unless --host is its user interface)"
        ),
    }.get(step.state)
    return f"{step.name} {reason}" if reason else f"the server keeps no log of {step.name}; see {link}"


def _is_refusal(text: str) -> bool:
    """Tell whether an answer is an error instead of a log: JSON with status 200, or a login page."""
    if text.lstrip()[:15].lower().startswith(("<!doctype html", "<html")):
        return True
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and "error_message" in found and found.keys() <= _REFUSAL


def _paths(connection: Connection, run_id: str, pods: Sequence[str]) -> Iterator[str]:
    """Yield possible URLs of the log: the API's, then those of the user interface, which hides the API's."""
    run = urllib.parse.quote(run_id, safe="")
    for pod in pods:
        yield f"/apis/v1alpha1/runs/{run}/nodes/{urllib.parse.quote(pod, safe='')}/log"
    for pod in pods:
        query = {"podname": pod, "runid": run_id, "podnamespace": connection.namespace or ""}
        yield "/k8s/pod/logs?" + urllib.parse.urlencode({k: v for k, v in query.items() if v})
