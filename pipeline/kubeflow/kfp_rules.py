"""Check a compiled pipeline for content that a Kubeflow Pipelines server refuses or misreads.

The rules are for what settings can change: names, values and their sizes. kfp's compiler alone writes the
rest, which tests check. The schema version is checked because it depends on the installed kfp.

`estimate_workflow` estimates the size of Argo's Workflow of a run. When its JSON exceeds a megabyte, Argo
compresses the nodes' status (`packer.CompressWorkflowIfNeeded`). Kubeflow's server then cannot read the
states of the steps. Repeated texts make up nearly all of the JSON:

- A task has three nodes. The driver takes component, task, container and Kubernetes config as JSON
  (`argocompiler.containerDriverTask`) and returns a patch of the pod's specification. The executor and the
  pod in it each take this patch (`containerExecutorTask`). Argo retries every template, so each of the
  three is two nodes with the same values: the retry and its attempt.
- The patch (`driver.initPodSpecPatch`) holds the component and the executor input with all parameter values.
  Both are JSON texts in a list in a JSON text.
- The pipeline's root holds every task. It is an argument of the workflow and of the root's driver, and the
  root's template repeats the tasks.

Measured on Kubeflow Pipelines 2.17.0 with Argo 4.0.5, on an older digits workflow. Two of its nine tasks took
a pipeline.config as a parameter. The 52 nodes had 0.65 MB, and each further KB of pipeline.config added about
30 KB. The view of the run failed near 15 KB. This estimate gives 0.75 MB in all, 27 KB, and 14 KB.
"""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detection_core.bounded.plain_yaml import parse_yaml_documents
from detection_core.errors import ContractError

SCHEMA_VERSION = "2.1.0"
# All inputs of a step are one argument, of 128 KiB at most on Linux; constants get half.
CONSTANT_BYTES = 64 * 1024

# A pipeline version may have 127 characters (`validation/length.go`); `-` and a fingerprint take 17. The
# server would refuse the version only after creating the pipeline.
NAME_CHARACTERS = 110
_NAME = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{NAME_CHARACTERS - 1}}}")


def check_package(text: str) -> None:
    """Check a compiled pipeline as a whole.

    The text is YAML with the pipeline, and optionally a second document for Kubernetes.

    Raises:
        ContractError: listing everything that a server would refuse.
    """
    spec, *platforms = parse_yaml_documents(text, "the compiled pipeline")
    version = spec.get("schemaVersion")
    faults = [
        *([] if version == SCHEMA_VERSION else [f"schemaVersion is {version!r} and not {SCHEMA_VERSION!r}"]),
        *_name(spec),
        *_constants(spec),
        *_strict_faults(spec, platforms),
        *_size_faults(spec, platforms),
    ]
    if faults:
        raise ContractError(
            "expected a pipeline that a Kubeflow Pipelines server takes, found: " + "; ".join(faults),
            where="the compiled pipeline",
        )


def _strict_faults(spec: Mapping[str, Any], platforms: list[Any]) -> list[str]:
    """Parse as strictly as the server, which refuses unknown fields."""
    from google.protobuf import json_format
    from kfp.kubernetes.kubernetes_executor_config_pb2 import KubernetesExecutorConfig
    from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec, PlatformSpec

    documents: list[tuple[str, Any, Any]] = [("PipelineSpec", spec, PipelineSpec())]
    documents += [("PlatformSpec", platform, PlatformSpec()) for platform in platforms]
    # In a PlatformSpec an executor can be any map; the server parses it only when a run is created.
    documents += [
        (f"{label} for Kubernetes", config, KubernetesExecutorConfig())
        for platform in platforms
        for label, config in kubernetes_executors(platform)
    ]
    faults = []
    for what, document, message in documents:
        try:
            json_format.ParseDict(document, message)
        except json_format.ParseError as e:
            faults.append(f"{what}: {e}")
    return faults


def _size_faults(spec: Mapping[str, Any], platforms: list[Any]) -> Iterator[str]:
    """Report a pipeline whose Workflow Argo would compress, which hides the steps from the server."""
    size = estimate_workflow(spec, platforms)
    if size.total <= SAFE_BYTES:
        return
    largest = sorted(size.tasks, key=lambda task: -size.tasks[task])[:3]
    sizes = ", ".join(f"{task} {size.tasks[task] / 1000:.0f}" for task in largest)
    total, frame, safe = (f"{n / 1000:.0f}" for n in (size.total, size.frame, SAFE_BYTES))
    yield (
        f"Argo's Workflow of a run would reach {total} kB, and beyond {safe} kB (nine tenths of Argo's"
        f" {LIMIT_BYTES // 1024} KiB; the rest is for repeated attempts) its steps may no longer be seen:"
        f" {frame} for the pipeline itself, the rest for its {len(size.tasks)} tasks ({sizes}, ...): the"
        " values of a task are repeated about twelve times; shorten the longest values"
    )


def _name(spec: Mapping[str, Any]) -> Iterator[str]:
    name = spec.get("pipelineInfo", {}).get("name", "")
    if not _NAME.fullmatch(name):
        yield (
            f"the pipeline's name {name!r} is not of small letters, digits and hyphens, {NAME_CHARACTERS} at"
            " most"
        )


# Placeholders that the driver fills if they are the whole constant (`resolveInputParameter`), and the run's
# volume anywhere; KFP's compiler writes an image from a parameter this way.
_PLACEHOLDER = re.compile(
    r"\{\{\$\.(inputs\.parameters\['[^'{}]+'\]"
    r"|pipeline_job_(name|resource_name|uuid|create_time_utc|schedule_time_utc)|pipeline_task_(name|uuid))\}\}"
    r"|\{\{\$\.workspace_path\}\}[^{}]*"
)


def _constants(spec: Mapping[str, Any]) -> Iterator[str]:
    for component, body in (("root", spec.get("root", {})), *spec.get("components", {}).items()):
        for task, call in body.get("dag", {}).get("tasks", {}).items():
            parameters = call.get("inputs", {}).get("parameters", {})
            constants = [str(p.get("runtimeValue", {}).get("constant", "")) for p in parameters.values()]
            size = sum(len(constant.encode()) for constant in constants)
            if size > CONSTANT_BYTES:
                yield (
                    f"the values given to {task} in {component} are {size} bytes long; they are one"
                    f" argument, of which {CONSTANT_BYTES} are safe: give the path of a file instead of"
                    " its content"
                )
            if any("{{" in constant and not _PLACEHOLDER.fullmatch(constant) for constant in constants):
                yield f"a value given to {task} in {component} holds {{{{, which begins a placeholder"


LIMIT_BYTES = 1024 * 1024
# Reserve a tenth for retries, each of which adds a node, and for errors of this estimate.
SAFE_BYTES = LIMIT_BYTES * 9 // 10

_ATTEMPTS = 2
_NODE_BYTES = 800
# Names, labels and the templates of driver, executor and launcher, which all pipelines share.
_FRAME_BYTES = 15_000
_UNKNOWN = "x" * 64  # a result of another step
# Of the pod patch: the launcher's command and volumes; addresses and metadata of an input and an output.
_LAUNCHER_BYTES, _INPUT_BYTES, _OUTPUT_BYTES = 700, 800, 320


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkflowSize:
    """Bytes of JSON of a run's Workflow: its frame, and what each task adds."""

    frame: int
    tasks: Mapping[str, int]

    @property
    def total(self) -> int:
        """Total bytes."""
        return self.frame + sum(self.tasks.values())


def estimate_workflow(spec: Mapping[str, Any], platforms: Sequence[Mapping[str, Any]] = ()) -> WorkflowSize:
    """Estimate the Workflow of a run in which every task is executed once."""
    groups = [spec.get("root", {}), *(c for c in spec.get("components", {}).values() if "dag" in c)]
    tasks = {name: t for group in groups for name, t in group.get("dag", {}).get("tasks", {}).items()}
    # An argument of the workflow, and of the group's driver and its attempt.
    without_tasks = [{**group, "dag": {**group.get("dag", {}), "tasks": {}}} for group in groups]
    frame = (1 + _ATTEMPTS) * sum(_escaped(_json(group)) for group in without_tasks)
    # Workflow, root and root's driver.
    frame += _FRAME_BYTES + 3 * _ATTEMPTS * _NODE_BYTES
    return WorkflowSize(
        frame=frame, tasks={name: _task_bytes(spec, platforms, task) for name, task in tasks.items()}
    )


def _task_bytes(
    spec: Mapping[str, Any], platforms: Sequence[Mapping[str, Any]], task: Mapping[str, Any]
) -> int:
    body = spec.get("components", {}).get(task.get("componentRef", {}).get("name"), {})
    body = {} if "dag" in body else body  # a group's tasks are counted one by one
    label = body.get("executorLabel", "")
    container = spec.get("deploymentSpec", {}).get("executors", {}).get(label, {}).get("container", {})
    kubernetes = [_json(config) for p in platforms for key, config in kubernetes_executors(p) if key == label]
    own = [_json(body), _json(container), *kubernetes]
    given, patch = _escaped(_json(task)), _escaped(_pod_patch(spec, task, body, container))
    definitions = sum(map(_escaped, own))
    # In the root as workflow's and driver's argument, and in the root's template.
    root = (1 + _ATTEMPTS) * given + given
    driver = _ATTEMPTS * (definitions + given + patch)
    executor = 2 * _ATTEMPTS * patch
    return definitions + root + driver + executor + 3 * _ATTEMPTS * _NODE_BYTES


def _pod_patch(spec: Mapping[str, Any], task: Mapping[str, Any], body: Any, container: Any) -> str:
    """Return a text about as long as the driver's patch of a pod, if values are known."""
    inputs, made = task.get("inputs", {}), body.get("outputDefinitions", {})
    values = {name: _value(spec, source) for name, source in inputs.get("parameters", {}).items()}
    taken = dict.fromkeys(inputs.get("artifacts", {}), "x" * _INPUT_BYTES)
    given = dict.fromkeys((*made.get("artifacts", {}), "executor-logs"), "x" * _OUTPUT_BYTES)
    files = {name: f"/tmp/kfp/outputs/{name}" for name in made.get("parameters", {})}
    executor_input = _json([values, taken, given, files])
    return _json(["x" * _LAUNCHER_BYTES, container, executor_input, _json(body)])


def _value(spec: Mapping[str, Any], source: Mapping[str, Any]) -> Any:
    if "componentInputParameter" in source:
        declared = spec["root"].get("inputDefinitions", {}).get("parameters", {})
        name = source["componentInputParameter"].removeprefix(
            "pipelinechannel--"
        )  # so it is called in groups
        return declared.get(name, {}).get("defaultValue", _UNKNOWN)
    return source.get("runtimeValue", {}).get("constant", _UNKNOWN)


def kubernetes_executors(platform: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield Kubernetes settings of each executor, by label."""
    kubernetes = platform.get("platforms", {}).get("kubernetes", {})
    yield from kubernetes.get("deploymentSpec", {}).get("executors", {}).items()


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _escaped(text: str) -> int:
    """Return the number of bytes of a text as a JSON value."""
    return len(_json(text).encode())
