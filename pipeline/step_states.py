"""The states of a step, on one machine and on a cluster."""

from __future__ import annotations

import enum

from detection_core.artifacts import run_info


class StepStatus(enum.StrEnum):
    """How a step of a run stands; written in run.json and in the results of verbs."""

    NOT_RUN = run_info.NOT_RUN
    """The run ended, or has not come to it yet, without it."""
    PENDING = "pending"
    WAITING = "waiting for its pod"
    """On a cluster: begun, but Kubernetes has not started its container yet, or cannot."""
    RUNNING = run_info.RUNNING
    EXECUTED = run_info.EXECUTED
    """On one machine: it has ended well and did not come from the cache."""
    SUCCEEDED = "succeeded"
    """The same on a cluster."""
    CACHED = run_info.CACHED
    SKIPPED = "skipped"
    """A condition of the pipeline left it out."""
    FAILED = run_info.FAILED
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The run has ended and the server did not tell how the step did."""
