"""The loop of a local run: steps in order, with results of earlier ones, each reported to an observer."""

import dataclasses
import datetime
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

from component_specs.codecs import Scalar
from detection_core.artifacts.run_info import StepInfo
from detection_core.training.memory import peak_host_memory
from pipeline.interruption import interrupted_by
from pipeline.steps import Dag, FromCheck, FromResult, Step, StepStatus

Observer = Callable[[StepInfo], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """How a step ended.

    Attributes:
        state: `executed` or `cached`.
        outputs: output field of its Job to the folder.
        results: those of `component_specs.kfp_outputs`, encoded.
    """

    state: StepStatus
    outputs: Mapping[str, str]
    results: Mapping[str, Scalar]


def given_parameters(step: Step, checks: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with values known before the run, which those from results are not."""
    return {
        name: checks[value.name] if isinstance(value, FromCheck) else value
        for name, value in step.parameters.items()
        if not isinstance(value, FromResult)
    }


def run_steps(
    dag: Dag, execute: Callable[[Step, Mapping[str, Scalar]], Execution], observer: Observer
) -> None:
    """Run the steps of a DAG.

    Args:
        dag: the steps.
        execute: runs a step, or finds it in a cache; gets its parameters from results, encoded.
        observer: gets a StepInfo in state `running` when a step begins, and again when it has ended.

    Raises:
        Exception: any exception of the failing step.
    """
    results: dict[str, Mapping[str, Scalar]] = {}
    for step in dag.steps:
        taken = {
            name: results[value.step][value.name]
            for name, value in step.parameters.items()
            if isinstance(value, FromResult)
        }
        results[step.id] = _observed(step, functools.partial(execute, step, taken), observer).results


def _observed(step: Step, execute: Callable[[], Execution], observer: Observer) -> Execution:
    started = time.time()
    at = datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="seconds")

    def info(state: str, **ended: Any) -> StepInfo:
        return StepInfo(
            id=step.id,
            component=step.component,
            state=state,
            started=at,
            seconds=time.time() - started,
            peak_memory_bytes=peak_host_memory() if state != "running" else 0,
            **ended,
        )

    observer(info("running"))
    try:
        execution = execute()
    except BaseException as e:
        # An interrupted step has not failed: the next run resumes it.
        state = "not run" if interrupted_by(e) else "failed"
        observer(info(state, error=f"{type(e).__name__}: {e}"))
        raise
    observer(info(execution.state, outputs=dict(execution.outputs)))
    return execution
