"""A compiled pipeline file: its name, its steps and its parameters."""

from __future__ import annotations

import dataclasses
import functools
import graphlib
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pipeline.kubeflow.package_file import read_documents
from pipeline.kubeflow.placeholder_rules import filled_parameters, schedule_timed
from pipeline.parameters import Parameter

# Conditions and loops inside one another; a component that contains itself would have no end.
_DEEPEST = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Package:
    """A compiled pipeline.

    Attributes:
        path: the file.
        name: of the pipeline.
        digest: fingerprint of what the file says; comments and layout do not count.
        steps: names of the tasks.
        parameters: name to parameter.
        root: folder of the artifacts; empty: the server's.
        filled: names of the parameters whose placeholders are filled in each run.
        timed: what asks for the scheduled time by itself, see `placeholder_rules.schedule_timed`.
    """

    path: str
    name: str
    digest: str
    steps: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    root: str = ""
    filled: frozenset[str] = frozenset()
    timed: frozenset[str] = frozenset()


def read_package(path: str) -> Package:
    """Read a compiled pipeline file.

    Raises:
        ConfigError: when it is not one, or one that no server takes.
    """
    spec, documents = read_documents(path)
    return Package(
        path=path,
        name=spec["pipelineInfo"]["name"],
        digest=hashlib.sha256(json.dumps(documents, sort_keys=True, default=str).encode()).hexdigest()[:16],
        steps=step_names(spec),
        parameters=spec_parameters(spec),
        root=artifact_root(spec),
        filled=filled_parameters(spec),
        timed=schedule_timed(spec),
    )


def step_names(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a pipeline's tasks; `spec` is as in the file, or as the server gives it back."""
    return tuple(_root(spec).get("dag", {}).get("tasks", {}))


def step_tree(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of a pipeline's tasks in their order, each with those inside it.

    Args:
        spec: as in `step_names`.
    """
    components = spec.get("pipeline_spec", spec).get("components", {})

    @functools.cache
    def inside(component: str, depth: int) -> dict[str, Any]:
        return tasks_of(components.get(component, {}), depth)

    def tasks_of(component: Mapping[str, Any], depth: int) -> dict[str, Any]:
        tasks = component.get("dag", {}).get("tasks", {}) if depth else {}
        return {
            name: inside(str(tasks[name].get("componentRef", {}).get("name")), depth - 1)
            for name in _in_order(tasks)
        }

    return tasks_of(_root(spec), _DEEPEST)


def _in_order(tasks: Mapping[str, Any]) -> list[str]:
    """Return the names of tasks, each after those that it depends on."""
    needs = {name: task.get("dependentTasks", []) for name, task in tasks.items()}
    try:
        ordered = graphlib.TopologicalSorter(needs).static_order()
        return [name for name in ordered if name in tasks]
    except (graphlib.CycleError, TypeError):  # which no compiler writes
        return list(tasks)


def artifact_root(spec: Mapping[str, Any]) -> str:
    """Return the folder that a pipeline wants its artifacts in; `spec` as in `step_names`."""
    return str(spec.get("pipeline_spec", spec).get("defaultPipelineRoot", ""))


def spec_parameters(spec: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the parameters that a pipeline declares; `spec` as in `step_names`."""
    declared = _root(spec).get("inputDefinitions", {}).get("parameters", {})
    return {
        name: Parameter(
            name=name,
            type=str(entry.get("parameterType", "")),
            required="defaultValue" not in entry and not entry.get("isOptional", False),
        )
        for name, entry in declared.items()
    }


def _root(spec: Mapping[str, Any]) -> dict[str, Any]:
    # With a second document for Kubernetes the server wraps both.
    found: dict[str, Any] = spec.get("pipeline_spec", spec).get("root", {})
    return found
