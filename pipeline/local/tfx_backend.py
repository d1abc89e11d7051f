"""The DAG as a TFX pipeline, run locally with SQLite ML Metadata."""

import json
from collections.abc import Mapping
from typing import Any

from tfx.dsl.compiler import constants
from tfx.orchestration import metadata
from tfx.orchestration import pipeline as tfx_pipeline
from tfx.orchestration.local import local_dag_runner, runner_utils
from tfx.orchestration.portable import launcher, runtime_parameter_utils

from component_specs.codecs import Scalar
from components.runtime.tfx import RESULTS, tfx_component
from pipeline.local.step_loop import Execution, Observer, given_parameters, run_steps
from pipeline.local.workspace import Workspace
from pipeline.steps import Dag, FromResult, Step, StepStatus


def run_dag(
    dag: Dag, checks: Mapping[str, Any], workspace: Workspace, run_id: str, observer: Observer
) -> None:
    """Compile the DAG as a TFX pipeline and run it in this process. `checks` maps check name to its value.

    Raises:
        Exception: any exception of the failing step; the cache keeps all earlier steps.
    """
    pipeline = build_tfx_pipeline(dag, checks, workspace.artifacts, workspace.metadata_path)
    ObservedDagRunner(run_id, dag, observer).run(pipeline)


def build_tfx_pipeline(dag: Dag, checks: Mapping[str, Any], root: str, metadata_path: str) -> Any:
    """Render the DAG as a TFX pipeline.

    `checks` maps check name to its value; `root` is TFX's artifact folder.
    """
    components: dict[str, Any] = {}
    for step in dag.steps:
        values = given_parameters(step, checks)
        for name, source in step.inputs.items():
            values[name] = components[source.step].outputs[source.output]
        component = tfx_component(step.component)(step.id, **values)
        results = (value.step for value in step.parameters.values() if isinstance(value, FromResult))
        for earlier in (*results, *step.after):
            component.add_upstream_node(components[earlier])
        components[step.id] = component
    return tfx_pipeline.Pipeline(
        pipeline_name=dag.name,
        pipeline_root=root,
        components=list(components.values()),
        enable_cache=True,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(metadata_path),
    )


class ObservedDagRunner(local_dag_runner.LocalDagRunner):
    """A LocalDagRunner that reports the begin and end of each step, and takes the run's id as an argument.

    The observer gets a StepInfo in state `running` when a step begins, and again with `executed`, `cached` or
    `failed`.
    """

    def __init__(self, run_id: str, dag: Dag, observer: Observer) -> None:
        super().__init__()
        self._dag = dag
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
        nodes = {node.pipeline_node.node_info.id: node.pipeline_node for node in pipeline.nodes}

        def execute(step: Step, results: Mapping[str, Scalar]) -> Execution:
            # Results of earlier steps enter the cache key by value.
            for name, value in results.items():
                nodes[step.id].parameters.parameters[name].field_value.string_value = value
            handle = metadata.Metadata(config)
            execution = launcher.Launcher(
                pipeline_node=nodes[step.id],
                mlmd_connection=handle,
                pipeline_info=pipeline.pipeline_info,
                pipeline_runtime_spec=pipeline.runtime_spec,
                executor_spec=runner_utils.extract_executor_spec(deployment, step.id),
                custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, step.id),
            ).launch()
            return _outcome(handle, execution)

        run_steps(self._dag, execute, self._observer)


def _outcome(handle: Any, info: Any) -> Execution:
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
    state = StepStatus.CACHED if cached else StepStatus.EXECUTED
    return Execution(state=state, outputs=outputs, results=results)
