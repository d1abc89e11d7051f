"""Steps of the workflow, sources of their inputs and parameters, and step states of a run."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from detection_core.artifacts import run_info


@dataclasses.dataclass(frozen=True)
class FromCheck:
    """A parameter that one of `pipeline.run_checks.CHECKS` computes when the run begins."""

    name: str


@dataclasses.dataclass(frozen=True)
class FromResult:
    """A parameter whose value is a result of an earlier step.

    Unlike an artifact, it enters the cache keys by its value. If the earlier step runs again with the same
    result, later steps are still cache hits.

    Attributes:
        name: one of its component's `component_specs.kfp_outputs` results.
    """

    step: str
    name: str


@dataclasses.dataclass(frozen=True)
class FromStep:
    """An input artifact: the producer's id and its output field."""

    step: str
    output: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """A step of the workflow.

    Attributes:
        id: unique in the DAG.
        component: key of `component_specs.JOBS`.
        parameters: parameter field to value, not encoded.
        inputs: input field to source.
        after: ids of further steps to wait for.
    """

    id: str
    component: str
    parameters: Mapping[str, Any]
    inputs: Mapping[str, FromStep]
    after: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dag:
    """Steps in topological order."""

    name: str
    steps: tuple[Step, ...]


class StepStatus(enum.StrEnum):
    """State of a step in a run, in run.json and in the results of verbs."""

    NOT_RUN = run_info.NOT_RUN
    """The run ended without it, or has not reached it yet."""
    PENDING = "pending"
    WAITING = "waiting for its pod"
    """On a cluster: Kubernetes has not started its container, or cannot."""
    RUNNING = run_info.RUNNING
    EXECUTED = run_info.EXECUTED
    """Local runs: it succeeded and was not a cache hit."""
    SUCCEEDED = "succeeded"
    """On a cluster: it succeeded and was not a cache hit."""
    CACHED = run_info.CACHED
    SKIPPED = "skipped"
    """A condition of the pipeline skipped it."""
    FAILED = run_info.FAILED
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The run ended, but the server did not report the step's end."""
