"""A compiled pipeline file: its name, its steps, its parameters, and the values given for them."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import graphlib
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from detection_core.errors import ConfigError
from pipeline.kubeflow.package_file import read_documents
from pipeline.kubeflow.placeholders import filled_parameters

# Conditions and loops inside one another; a component that contains itself would have no end.
_DEEPEST = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a pipeline.

    Attributes:
        name: as the pipeline declares it.
        type: `STRING`, `NUMBER_INTEGER`, `NUMBER_DOUBLE`, `BOOLEAN`, `LIST` or `STRUCT`.
        required: True where it has no default and is not optional.
    """

    name: str
    type: str
    required: bool


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
    """

    path: str
    name: str
    digest: str
    steps: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    root: str = ""
    filled: frozenset[str] = frozenset()


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


def parse_parameters(parameters: Mapping[str, Parameter], texts: Sequence[str]) -> dict[str, Any]:
    """Return `NAME=VALUE` texts as typed values.

    Raises:
        ConfigError: for an unknown name, with the nearest one, or a value of another type.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise ConfigError(f"expected NAME=VALUE, found {text!r}", where="--param")
        parameter = _find(parameters, name.strip(), "--param")
        values[parameter.name] = _parse(parameter, value)
    return values


def check_parameters(
    parameters: Mapping[str, Parameter], values: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Check names and types of values, and that no required one is missing.

    Raises:
        ConfigError: naming the parameter.
    """
    for name, value in values.items():
        parameter = _find(parameters, name, where)
        expected = _TYPES.get(parameter.type)
        if expected and not _fits(value, expected):
            raise ConfigError(
                f"{name}: expected {_WORDS[parameter.type]}, found {value!r}; correct the value", where=where
            )
    missing = [p.name for p in parameters.values() if p.required and p.name not in values]
    if missing:
        raise ConfigError(
            f"no value for {', '.join(missing)}, which the pipeline has no default for; give "
            f"--param {missing[0]}=VALUE",
            where=where,
        )
    return dict(values)


def _find(parameters: Mapping[str, Parameter], name: str, where: str) -> Parameter:
    if name in parameters:
        return parameters[name]
    near = difflib.get_close_matches(name, parameters, n=1)
    known = f"the pipeline has {', '.join(parameters)}" if parameters else "the pipeline has none"
    hint = f"did you mean {near[0]}?" if near else known
    raise ConfigError(f"no parameter {name}; {hint}", where=where)


def _parse(parameter: Parameter, text: str) -> Any:
    if parameter.type == "STRING":
        return text
    try:
        value = json.loads(text.strip())
    except ValueError:
        value = None
    if value is None or not _fits(value, _TYPES.get(parameter.type, (object,))):
        raise ConfigError(
            f"expected {_WORDS.get(parameter.type, 'JSON')}, found {text!r}; correct the value",
            where=f"--param {parameter.name}",
        )
    return value


def _fits(value: Any, expected: tuple[type, ...]) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, expected) and (bool in expected or not isinstance(value, bool))


_TYPES: Mapping[str, tuple[type, ...]] = {
    "STRING": (str,),
    "NUMBER_INTEGER": (int,),
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": (bool,),
    "LIST": (list,),
    "STRUCT": (dict,),
}
_WORDS: Mapping[str, str] = {
    "STRING": "a text",
    "NUMBER_INTEGER": "a whole number",
    "NUMBER_DOUBLE": "a number",
    "BOOLEAN": "true or false",
    "LIST": "a list, as JSON",
    "STRUCT": "a map, as JSON",
}
