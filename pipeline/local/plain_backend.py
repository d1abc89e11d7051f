"""The DAG, run where TFX is not installed, with its executions recorded in files.

Cache hits are those of TFX. Outputs are in `artifacts/STEP/OUTPUT/RUN_ID`, named by the run that executed the
step. The record of an execution, `executions/STEP/KEY/execution.json`, is written after them: without it they
do not count. TFX has other folders and records, so neither backend finds what the other has made.
"""

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.codecs import Scalar
from components.runtime.bind import fill_job
from components.runtime.in_process import run_job
from detection_core.artifacts.json_file import JsonFile
from detection_core.redaction import redact
from detection_core.storage import files
from detection_core.storage.disk_cache import entry_key
from pipeline.local.step_loop import Execution, Observer, given_parameters, run_steps
from pipeline.local.workspace import Workspace
from pipeline.steps import Dag, Step, StepStatus

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecutionRecord:
    """Record of a successful execution.

    Attributes:
        run_id: the run that executed the step, and the name of its outputs' folders.
        component: name of the component.
        parameters: encoded, with the version of the code.
        inputs: input field to its folder in `artifacts`, which names step, output and run.
        results: those of `component_specs.kfp_outputs`, encoded.
    """

    run_id: str
    component: str
    parameters: Mapping[str, Any]
    inputs: Mapping[str, str]
    results: Mapping[str, Any]


RECORD = JsonFile(
    name="execution.json",
    content=ExecutionRecord,
    writer="`detflow run`",
    remedy="remove its folder, and the step is executed again",
)


def run_dag(
    dag: Dag, checks: Mapping[str, Any], workspace: Workspace, run_id: str, observer: Observer
) -> None:
    """Run the steps in this process, unless they are cache hits; `checks` maps check name to its value.

    Raises:
        Exception: any exception of the failing step; the cache keeps all earlier steps.
    """
    _logger.info("run | TFX is not installed; executions are recorded in %s", workspace.executions)
    run_steps(dag, _Runner(dag, checks, workspace, run_id).execute, observer)


class _Runner:
    """Executes steps, or finds their records."""

    def __init__(self, dag: Dag, checks: Mapping[str, Any], workspace: Workspace, run_id: str) -> None:
        self._dag, self._checks, self._workspace, self._run_id = dag, checks, workspace, run_id
        self._made_by: dict[str, str] = {}

    def execute(self, step: Step, results: Mapping[str, Scalar]) -> Execution:
        declared, parameters = job_fields(JOBS[step.component]).parameters, dict(results)
        for name, value in given_parameters(step, self._checks).items():
            parameters[name] = declared[name].codec.encode(value)
        # An input is identified by its execution: one that was executed again may have another content.
        inputs = {
            name: os.path.join(source.step, source.output, self._made_by[source.step])
            for name, source in step.inputs.items()
        }
        key = entry_key(json.dumps([self._dag.name, step.component, parameters, inputs], sort_keys=True))
        folder = os.path.join(self._workspace.executions, step.id, key)
        state, found = StepStatus.CACHED, RECORD.find_usable(folder)
        if found is None or not all(map(os.path.isdir, self._outputs(step, found.run_id).values())):
            state, found = StepStatus.EXECUTED, self._run(step, parameters, inputs)
            files.write_text(RECORD.path(folder), redact(RECORD.format(found)))
        self._made_by[step.id] = found.run_id
        return Execution(state=state, outputs=self._outputs(step, found.run_id), results=found.results)

    def _run(
        self, step: Step, parameters: Mapping[str, Scalar], inputs: Mapping[str, str]
    ) -> ExecutionRecord:
        """Run a step; its outputs appear when all are complete."""
        taken = {name: os.path.join(self._workspace.artifacts, path) for name, path in inputs.items()}
        with contextlib.ExitStack() as stack:
            made = {
                name: stack.enter_context(files.atomic_dir(path))
                for name, path in self._outputs(step, self._run_id).items()
            }
            results = run_job(step.component, fill_job(JOBS[step.component], parameters, taken, made))
        return ExecutionRecord(
            run_id=self._run_id,
            component=step.component,
            parameters=parameters,
            inputs=inputs,
            results=results,
        )

    def _outputs(self, step: Step, run_id: str) -> dict[str, str]:
        names = job_fields(JOBS[step.component]).outputs
        return {name: os.path.join(self._workspace.artifacts, step.id, name, run_id) for name in names}
