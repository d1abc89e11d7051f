"""The states of a step, on one machine and on a cluster."""

from __future__ import annotations

import enum


class StepStatus(enum.StrEnum):
    """How a step of a run stands; written in run.json and in the results of verbs."""

    NOT_RUN = "not run"
    """The run ended, or has not come to it yet, without it."""
    PENDING = "pending"
    RUNNING = "running"
    EXECUTED = "executed"
    """On one machine: it has ended well and did not come from the cache."""
    SUCCEEDED = "succeeded"
    """The same on a cluster."""
    CACHED = "cached"
    SKIPPED = "skipped"
    """A condition of the pipeline left it out."""
    FAILED = "failed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The run has ended and the server did not tell how the step did."""


LOCAL_STATES = (
    StepStatus.NOT_RUN,
    StepStatus.RUNNING,
    StepStatus.EXECUTED,
    StepStatus.CACHED,
    StepStatus.FAILED,
)
"""What a step on one machine can be: nobody cancels it alone, and there are no conditions."""
