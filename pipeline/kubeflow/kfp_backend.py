"""Compile the DAG to a Kubeflow Pipelines package (YAML)."""

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.trainer import NODES, TrainingNodes
from components.run_checker.placeholders import asks_for_value
from components.run_checker.run import FILLED
from detection_core.errors import ConfigError
from detection_core.redaction import redact
from detection_core.storage.scratch_folder import ScratchFolder
from pipeline.dag import build_dag
from pipeline.extras import require
from pipeline.run_checks import check_step, refuse_placeholders
from pipeline.run_parameters import CHECKER, IMAGE, RUN_PARAMETERS, RunParameter, parameter_type
from pipeline.settings.kubeflow_settings import TaskSettings
from pipeline.settings.step_ids import EVALUATOR, PUSHER
from pipeline.settings.workflow_settings import PipelineSettings
from pipeline.steps import FromCheck, FromResult, Step


def render_pipeline(settings: PipelineSettings) -> str:
    """Return the workflow as a Kubeflow Pipelines package: YAML of one or two documents.

    It includes settings and pipeline.config. The image is a parameter of the run unless
    `kubeflow.image_parameter` is false.

    Raises:
        ConfigError: for invalid settings, or without kfp.
    """
    require("cluster", "a package for Kubeflow Pipelines")
    from kfp import compiler

    from pipeline.kubeflow.kfp_rules import check_package

    steps = _cluster_steps(settings)
    with ScratchFolder() as folder:
        path = Path(folder) / "pipeline.yaml"
        compiler.Compiler().compile(_pipeline_function(settings, steps), str(path))
        text = path.read_text(encoding="utf-8")
    check_package(text)
    if redact(text) != text:
        raise ConfigError(
            "expected no secret in settings and pipeline.config, found one, which everybody could read in the"
            " package; use a Kubernetes secret, in secret_env"
        )
    return text


def _cluster_steps(settings: PipelineSettings) -> list[Step]:
    """Return the steps of the DAG, the checks first, adapted to a cluster."""
    dag = build_dag(settings)  # first: it reports faults of configuration files
    checks, work_dir = check_step(settings), settings.kubeflow.work_dir
    if work_dir:
        checks = dataclasses.replace(checks, parameters={**checks.parameters, "work_dir": work_dir})
    steps = [checks, *dag.steps]
    refuse_placeholders(steps)
    asking = next((n for n in FILLED if asks_for_value(str(checks.parameters[n]))), "")
    if asking and not settings.kubeflow.schedule_time:
        raise ConfigError(
            f"expected true, as {asking} holds a placeholder, found false; without it RunChecker gets"
            " neither the time nor the id of a run",
            where="kubeflow.schedule_time",
        )
    return steps


def _pipeline_function(settings: PipelineSettings, steps: Sequence[Step]) -> Any:
    """Return the function that KFP's compiler traces; its signature has the run's parameters."""
    from kfp import dsl

    by_id = {step.id: step for step in steps}
    offered = [p for p in RUN_PARAMETERS if any(step in by_id for step, _ in p.targets)]

    # KFP calls with one positional argument for each parameter of the signature.
    def workflow(*channels: Any) -> None:
        values: dict[str, dict[str, Any]] = {}
        for parameter, channel in zip(offered, channels, strict=False):
            for step, field in parameter.targets:
                values.setdefault(step, {})[field] = channel
        tasks = _with_notifiers(settings, lambda: _add_tasks(settings, steps, values))
        for step, task in tasks.items() if settings.kubeflow.image_parameter else ():
            if not settings.kubeflow.task(step).image:
                task.set_container_image(channels[-1])

    parameters = [_signature_parameter(p, by_id) for p in offered]
    descriptions = {p.name: p.description for p in offered}
    if settings.kubeflow.image_parameter:
        parameters.append(
            inspect.Parameter(
                IMAGE, inspect.Parameter.KEYWORD_ONLY, annotation=str, default=settings.kubeflow.image
            )
        )
        descriptions[IMAGE] = "Container image of the steps, best by digest or by a tag that never moves."
    workflow.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    workflow.__annotations__ = {p.name: p.annotation for p in parameters}
    arguments = "\n".join(f"    {name}: {text}" for name, text in descriptions.items())
    workflow.__doc__ = f"Object detection, from images to a published detector.\n\nArgs:\n{arguments}\n"
    return dsl.pipeline(
        name=pipeline_name(settings.name),
        pipeline_root=settings.kubeflow.pipeline_root or None,
        pipeline_config=_pipeline_config(settings),
    )(workflow)


def _pipeline_config(settings: PipelineSettings) -> Any:
    from kfp import dsl

    volume = settings.kubeflow.workspace
    if not volume.size:
        return None
    claim = {"accessModes": [volume.access_mode], "storageClassName": volume.storage_class}
    kubernetes = dsl.KubernetesWorkspaceConfig(pvcSpecPatch={k: v for k, v in claim.items() if v})
    return dsl.PipelineConfig(workspace=dsl.WorkspaceConfig(size=volume.size, kubernetes=kubernetes))


def pipeline_name(name: str) -> str:
    """Convert a workflow's name to the allowed characters: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _signature_parameter(parameter: RunParameter, steps: Mapping[str, Step]) -> inspect.Parameter:
    step, field = next((steps[s], f) for s, f in parameter.targets if s in steps)
    declared = job_fields(JOBS[step.component]).parameters[field]
    default = declared.codec.encode(step.parameters.get(field, declared.default))
    return inspect.Parameter(
        parameter.name, inspect.Parameter.KEYWORD_ONLY, annotation=parameter_type(parameter), default=default
    )


def _add_tasks(
    settings: PipelineSettings, steps: Sequence[Step], overrides: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Add a task for each step; KFP calls this while it traces the pipeline.

    `overrides` maps step id and parameter field to the pipeline parameter that the field takes.
    """
    from kfp import dsl

    from component_specs.kfp_yaml import WORKSPACE, kfp_component

    has_volume = bool(settings.kubeflow.workspace.size) and not settings.data.shards_uri
    tasks: dict[str, Any] = {}
    overrides = {**overrides, CHECKER: {**overrides.get(CHECKER, {}), **_of_the_driver(settings)}}
    for step in steps:
        # RunChecker's values are parameters of other steps, so that BaselineResolver and Pusher can be
        # cached: their keys change when another version is deployed, or the published one is gone.
        fields = job_fields(JOBS[step.component])
        declared = fields.parameters
        values: dict[str, Any] = {
            name: tasks[CHECKER if isinstance(value, FromCheck) else value.step].outputs[value.name]
            if isinstance(value, FromCheck | FromResult)
            else declared[name].codec.encode(value)
            for name, value in step.parameters.items()
        }
        for name, source in step.inputs.items():
            values[name] = tasks[source.step].outputs[source.output]
        # Launchers always upload outputs and download inputs. So examples name shards in the run's volume,
        # which a driver mounts for a parameter with its path (2.17.0, `v2/driver/driver.go:521`).
        if has_volume and "shards_uri" in declared:
            values["shards_uri"] = f"{dsl.WORKSPACE_PATH_PLACEHOLDER}/shards"
        mounts = has_volume and any(fields.inputs[name].type.name == "Examples" for name in step.inputs)
        if mounts:
            values[WORKSPACE] = dsl.WORKSPACE_PATH_PLACEHOLDER
        # Name the task by its step: a component may be used by two steps.
        image = settings.kubeflow.image
        component = kfp_component(step.component, image, step.id, described=False, mounts=mounts)
        tasks[step.id] = component(**{**values, **overrides.get(step.id, {})})
        tasks[step.id].after(*(tasks[earlier] for earlier in step.after))
        _configure(tasks[step.id], step.id, settings)
    return tasks


def _with_notifiers(settings: PipelineSettings, add_tasks: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Add tasks, and those that notify of a run's outcome if the settings ask for it.

    One follows Pusher and tells of its decision. Failures are for the exit task of an ExitHandler around
    all others, which runs in any case, but cannot see their outputs.
    """
    notify = settings.notify
    if not notify.webhook_env:
        return add_tasks()
    from kfp import dsl, kubernetes

    command, words = ["python", "-m", "components.notifier"], ["--executor_input", "{{$}}"]
    container = dsl.ContainerSpec(image=settings.kubeflow.image, command=command, args=words)
    artifact: Any = dsl.Input[dsl.Artifact]

    def exit_notifier(about: str, run_id: str, status: dsl.PipelineTaskFinalStatus) -> dsl.ContainerSpec:
        return container

    def notifier(about: str, run_id: str, pushed_model: artifact, evaluation: artifact) -> dsl.ContainerSpec:
        return container

    host = (settings.kubeflow.connection.ui_host or settings.kubeflow.host).rstrip("/")
    link = host and f"{host}/#/runs/details/"
    about = {"notify": notify.model_dump(exclude={"secret"}), "pipeline": settings.name, "link": link}
    values = {"about": json.dumps(about), "run_id": dsl.PIPELINE_JOB_ID_PLACEHOLDER}
    added = {"exit_notifier": dsl.container_component(exit_notifier)(**values)}
    with dsl.ExitHandler(added["exit_notifier"]):
        tasks = add_tasks()
        made = {"pushed_model": tasks[PUSHER], "evaluation": tasks[EVALUATOR]}
        values |= {name: task.outputs[name] for name, task in made.items()}
        added["notifier"] = dsl.container_component(notifier)(**values)
    for name, task in added.items():
        _configure(task, name, settings)
        task.set_caching_options(False)
        if notify.secret:
            # Without the secret the pod starts all the same, and warns.
            variables = {notify.webhook_env: notify.webhook_env}
            kubernetes.use_secret_as_env(task, notify.secret, variables, optional=True)
    return {**tasks, **added}


def _of_the_driver(settings: PipelineSettings) -> dict[str, str]:
    """Return the RunChecker fields that Kubeflow's driver fills; the placeholder is the whole value."""
    from kfp import dsl

    if not settings.kubeflow.schedule_time:
        return {}
    return {
        "scheduled_time": dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER,
        "run_id": dsl.PIPELINE_JOB_ID_PLACEHOLDER,
    }


def _configure(task: Any, step: str, settings: PipelineSettings) -> None:
    from kfp import kubernetes

    kubeflow = settings.kubeflow
    task_settings = kubeflow.task(step)
    task.set_caching_options(task_settings.caching and step != CHECKER)
    if task_settings.image:
        task.set_container_image(task_settings.image)
    if task_settings.nodes:
        task.set_env_variable(NODES, _training_nodes(task_settings).as_text())
    else:
        _set_resources(task, task_settings)
    _mount(task, task_settings)
    for name, value in task_settings.env.items():
        task.set_env_variable(name, value)
    for toleration in task_settings.tolerations:
        kubernetes.add_toleration(task, **toleration)
    if task_settings.retries:
        task.set_retry(
            task_settings.retries,
            backoff_duration=task_settings.retry_delay,
            backoff_factor=task_settings.retry_factor,
        )
    if task_settings.timeout:
        kubernetes.set_timeout(task, seconds=task_settings.timeout)
    # The Pod Security standard `restricted` requires this field, which Kubeflow leaves open for steps. The
    # image's user is not root.
    kubernetes.set_security_context(task, run_as_non_root=True)
    if kubeflow.image_pull_policy:
        kubernetes.set_image_pull_policy(task, kubeflow.image_pull_policy)
    if kubeflow.image_pull_secrets:
        kubernetes.set_image_pull_secrets(task, kubeflow.image_pull_secrets)


def _training_nodes(task_settings: TaskSettings) -> TrainingNodes:
    """Return the nodes of a training; the pod of its step only waits for them, and needs no resources."""
    gpus = {task_settings.gpu_type: str(task_settings.gpu)} if task_settings.gpu else {}
    requests = {"cpu": task_settings.cpu, "memory": task_settings.memory}
    limits = {"cpu": task_settings.cpu_limit, "memory": task_settings.memory_limit, **gpus}
    given = {"requests": requests, "limits": limits}
    return TrainingNodes(
        nodes=task_settings.nodes,
        kind=task_settings.job_kind,
        labels=task_settings.job_labels,
        resources={key: {name: v for name, v in found.items() if v} for key, found in given.items()},
    )


def _set_resources(task: Any, task_settings: TaskSettings) -> None:
    for set_value, value in (
        (task.set_cpu_request, task_settings.cpu),
        (task.set_cpu_limit, task_settings.cpu_limit),
        (task.set_memory_request, task_settings.memory),
        (task.set_memory_limit, task_settings.memory_limit),
    ):
        if value:
            set_value(value)
    if task_settings.gpu:
        task.set_accelerator_type(task_settings.gpu_type).set_accelerator_limit(task_settings.gpu)


def _mount(task: Any, task_settings: TaskSettings) -> None:
    """Add what has a name in the cluster: labels of nodes, volumes and variables."""
    from kfp import kubernetes

    for given, add in (
        (task_settings.node_selector, kubernetes.add_node_selector),
        (task_settings.pvcs, kubernetes.mount_pvc),
        (task_settings.secret_env, kubernetes.use_secret_as_env),
        (task_settings.secret_volumes, kubernetes.use_secret_as_volume),
        (task_settings.config_map_env, kubernetes.use_config_map_as_env),
        (task_settings.config_map_volumes, kubernetes.use_config_map_as_volume),
    ):
        for name, value in given.items():
            add(task, name, value)
    if task_settings.shared_memory:
        kubernetes.empty_dir_mount(
            task,
            volume_name="shared-memory",
            mount_path="/dev/shm",
            medium="Memory",
            size_limit=task_settings.shared_memory,
        )
