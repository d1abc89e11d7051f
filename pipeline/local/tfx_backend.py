"""The DAG as a TFX pipeline, run locally with SQLite ML Metadata."""

import datetime
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfx.dsl.compiler import constants
from tfx.orchestration import metadata
from tfx.orchestration import pipeline as tfx_pipeline
from tfx.orchestration.local import local_dag_runner, runner_utils
from tfx.orchestration.portable import launcher, runtime_parameter_utils

from components.runtime.tfx import RESULTS, tfx_component
from detection_core.artifacts.run_info import StepInfo
from detection_core.training.memory import peak_host_memory
from pipeline.interruption import interrupted_by
from pipeline.steps import Dag, FromCheck, FromResult, Step, StepStatus

_logger = logging.getLogger(__name__)

Observer = Callable[[StepInfo], None]


def build_tfx_pipeline(dag: Dag, checks: Mapping[str, Any], root: str, metadata_path: str) -> Any:
    """Render the DAG as a TFX pipeline.

    `checks` maps check name to its value; `root` is TFX's artifact folder.
    """
    components: dict[str, Any] = {}
    for step in dag.steps:
        results = _results_of(step)
        values: dict[str, Any] = {
            name: checks[value.name] if isinstance(value, FromCheck) else value
            for name, value in step.parameters.items()
            if name not in results
        }
        for name, source in step.inputs.items():
            values[name] = components[source.step].outputs[source.output]
        component = tfx_component(step.component)(step.id, **values)
        for earlier in (*(value.step for value in results.values()), *step.after):
            component.add_upstream_node(components[earlier])
        components[step.id] = component
    return tfx_pipeline.Pipeline(
        pipeline_name=dag.name,
        pipeline_root=root,
        components=list(components.values()),
        enable_cache=True,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(metadata_path),
    )


def _results_of(step: Step) -> dict[str, FromResult]:
    """Return the parameters that the runner fills in, because their values are unknown before the run."""
    return {name: value for name, value in step.parameters.items() if isinstance(value, FromResult)}


class ObservedDagRunner(local_dag_runner.LocalDagRunner):
    """A LocalDagRunner that reports the begin and end of each step, and takes the run's id as an argument."""

    def __init__(self, run_id: str, dag: Dag, observer: Observer) -> None:
        super().__init__()
        self._steps = {step.id: step for step in dag.steps}
        self._results: dict[str, dict[str, Any]] = {}
        self._run_id = run_id
        self._observer = observer

    def run_with_ir(self, pipeline: Any, run_options: Any = None) -> None:
        """Run the nodes in order, like LocalDagRunner, and report to the observer.

        `run_options` must be None: the cache replaces partial runs.

        Raises:
            Exception: any exception of the failing step.
        """
        runtime_parameter_utils.substitute_runtime_parameter(
            pipeline, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: self._run_id}
        )
        deployment = runner_utils.extract_local_deployment_config(pipeline)
        connection = deployment.metadata_connection_config
        config = getattr(connection, connection.WhichOneof("connection_config"))
        for node in pipeline.nodes:
            self._run_node(node.pipeline_node, pipeline, deployment, config)

    def _run_node(self, node: Any, pipeline: Any, deployment: Any, connection: Any) -> None:
        step_id, started = node.node_info.id, time.time()
        component = self._steps[step_id].component
        at = datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="seconds")

        def info(state: str, outputs: Mapping[str, str] | None = None, error: str = "") -> StepInfo:
            return StepInfo(
                id=step_id,
                component=component,
                state=state,
                started=at,
                seconds=time.time() - started,
                outputs=dict(outputs or {}),
                error=error,
                peak_memory_bytes=peak_host_memory() if state != "running" else 0,
            )

        self._observer(info("running"))
        # Results of earlier steps enter the cache key by value.
        for name, value in _results_of(self._steps[step_id]).items():
            found = self._results[value.step][value.name]
            node.parameters.parameters[name].field_value.string_value = found
        handle = metadata.Metadata(connection)
        try:
            execution = launcher.Launcher(
                pipeline_node=node,
                mlmd_connection=handle,
                pipeline_info=pipeline.pipeline_info,
                pipeline_runtime_spec=pipeline.runtime_spec,
                executor_spec=runner_utils.extract_executor_spec(deployment, step_id),
                custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, step_id),
            ).launch()
        except BaseException as e:
            # An interrupted step has not failed: the next run resumes it.
            state = "not run" if interrupted_by(e) else "failed"
            self._observer(info(state, error=f"{type(e).__name__}: {e}"))
            raise
        state, outputs, self._results[step_id] = _outcome(handle, execution)
        self._observer(info(state, outputs))


def _outcome(handle: Any, info: Any) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return whether it was a cache hit, the folders of the outputs, and the results for other steps."""
    from ml_metadata.proto import metadata_store_pb2

    with handle as m:
        execution = m.store.get_executions_by_id([info.execution_id])[0]
        events = m.store.get_events_by_execution_ids([info.execution_id])
        output_events = [e for e in events if e.type == metadata_store_pb2.Event.OUTPUT]
        artifacts = m.store.get_artifacts_by_id([e.artifact_id for e in output_events])
    cached = execution.last_known_state == metadata_store_pb2.Execution.CACHED
    uris = {a.id: a.uri for a in artifacts}
    outputs = {e.path.steps[0].key: uris[e.artifact_id] for e in output_events}
    results: dict[str, Any] = {}
    for artifact in artifacts:
        if RESULTS in artifact.custom_properties:
            results |= json.loads(artifact.custom_properties[RESULTS].string_value)
    return (StepStatus.CACHED if cached else StepStatus.EXECUTED), outputs, results


def run_tfx_pipeline(pipeline: Any, dag: Dag, run_id: str, observer: Observer) -> None:
    """Compile and run a TFX pipeline in this process.

    The observer gets a StepInfo in state `running` when a step begins, and again with `executed`, `cached` or
    `failed`.

    Raises:
        Exception: any exception of the failing step; the cache keeps all earlier steps.
    """
    ObservedDagRunner(run_id, dag, observer).run(pipeline)
