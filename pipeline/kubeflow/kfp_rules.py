"""Check a compiled pipeline for content that a Kubeflow Pipelines server refuses or misreads.

The rules come from the API server and its compiler to Argo (schema version, executors, names). The launcher
adds rules for arguments, the user interface for types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from detection_core.bounded.plain_yaml import parse_yaml_documents
from detection_core.errors import ContractError
from pipeline.kubeflow.workflow_size import LIMIT_BYTES, SAFE_BYTES, estimate_workflow, kubernetes_executors

SCHEMA_VERSION = "2.1.0"
# Longest argument of a program on Linux. All inputs of a step are one argument; constants get half.
ARGUMENT_BYTES = 128 * 1024
CONSTANT_BYTES = ARGUMENT_BYTES // 2

Rule = Callable[[Mapping[str, Any]], Iterator[str]]
# A pipeline version may have 127 characters (`validation/length.go`); `-` and a fingerprint take 17. The
# server would refuse the version only after creating the pipeline.
NAME_CHARACTERS = 110
_NAME = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{NAME_CHARACTERS - 1}}}")
_EXECUTORS = ("container", "importer")


def check_package(text: str) -> None:
    """Check a compiled pipeline as a whole.

    The text is YAML with the pipeline, and optionally a second document for Kubernetes.

    Raises:
        ContractError: listing everything that a server would refuse.
    """
    spec, *platforms = parse_yaml_documents(text, "the compiled pipeline")
    faults = find_faults(spec) + _strict_faults(spec, platforms) + list(_size_faults(spec, platforms))
    if faults:
        raise ContractError(
            "expected a pipeline that a Kubeflow Pipelines server takes, found: " + "; ".join(faults),
            where="the compiled pipeline",
        )


def find_faults(spec: Mapping[str, Any]) -> list[str]:
    """Return one text for each violated rule."""
    return [fault for rule in RULES for fault in rule(spec)]


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


def _schema_version(spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("schemaVersion") != SCHEMA_VERSION:
        yield f"schemaVersion is {spec.get('schemaVersion')!r} and not {SCHEMA_VERSION!r}"


def _name(spec: Mapping[str, Any]) -> Iterator[str]:
    name = spec.get("pipelineInfo", {}).get("name", "")
    if not _NAME.fullmatch(name):
        yield (
            f"the pipeline's name {name!r} is not of small letters, digits and hyphens, {NAME_CHARACTERS} at"
            " most"
        )


def _components(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "root", spec.get("root", {})
    yield from spec.get("components", {}).items()


def _component_names(spec: Mapping[str, Any]) -> Iterator[str]:
    for name in spec.get("components", {}):
        if not name.startswith("comp-"):
            yield f"the component {name!r} does not begin with comp-, which the local runner cuts off"


def _parameter_types(spec: Mapping[str, Any]) -> Iterator[str]:
    for component, body in _components(spec):
        for side in ("inputDefinitions", "outputDefinitions"):
            for name, parameter in body.get(side, {}).get("parameters", {}).items():
                if not parameter.get("parameterType"):
                    yield f"parameter {name} of {component} has no parameterType"


def _artifact_types(spec: Mapping[str, Any]) -> Iterator[str]:
    for component, body in _components(spec):
        for side in ("inputDefinitions", "outputDefinitions"):
            for name, artifact in body.get(side, {}).get("artifacts", {}).items():
                title = artifact.get("artifactType", {}).get("schemaTitle", "")
                if not title.startswith("system."):
                    yield f"artifact {name} of {component} has the type {title!r} and not one of system.*"


def _executors(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from spec.get("deploymentSpec", {}).get("executors", {}).items()


def _executor_kinds(spec: Mapping[str, Any]) -> Iterator[str]:
    for name, executor in _executors(spec):
        for kind in executor.keys() - set(_EXECUTORS):
            yield f"{name} is of the kind {kind}; a server runs {' and '.join(_EXECUTORS)} only"


def _containers(spec: Mapping[str, Any]) -> Iterator[str]:
    for name, executor in _executors(spec):
        if "container" not in executor:
            continue
        container = executor["container"]
        if not container.get("command"):
            yield f"{name} has no command; an image's own entry point is never run"
        if not container.get("image"):
            yield f"{name} has no image"
        if "lifecycle" in container:
            yield f"{name} has a lifecycle hook, which a server ignores"


def _arguments(spec: Mapping[str, Any]) -> Iterator[str]:
    for name, executor in _executors(spec):
        for argument in executor.get("container", {}).get("args", ()):
            if argument.startswith('{"IfPresent":'):
                yield f"an argument of {name} begins with IfPresent, which the driver interprets"
            if "{{" in argument.replace("{{$", ""):
                yield f"an argument of {name} holds {{{{, which begins a placeholder"
            if len(argument.encode()) > ARGUMENT_BYTES:
                yield f"an argument of {name} is longer than {ARGUMENT_BYTES} bytes"


# Placeholders that the driver fills if they are the whole constant (`resolveInputParameter`); KFP's compiler
# writes an image from a parameter this way.
_PLACEHOLDER = re.compile(
    r"\{\{\$\.(inputs\.parameters\['[^'{}]+'\]"
    r"|pipeline_job_(name|resource_name|uuid|create_time_utc|schedule_time_utc)|pipeline_task_(name|uuid))\}\}"
)


def _constants(spec: Mapping[str, Any]) -> Iterator[str]:
    for component, body in _components(spec):
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


RULES: tuple[Rule, ...] = (
    _schema_version,
    _name,
    _component_names,
    _parameter_types,
    _artifact_types,
    _executor_kinds,
    _containers,
    _arguments,
    _constants,
)
