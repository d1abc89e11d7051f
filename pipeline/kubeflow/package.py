"""A compiled pipeline file: documents, name, steps, parameters, and the placeholders in them."""

import dataclasses
import functools
import graphlib
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from components.run_checker import placeholders
from components.run_checker.run import FILLED
from detection_core.bounded.plain_yaml import parse_yaml_documents
from detection_core.errors import ConfigError
from detection_core.storage import files
from pipeline.kubeflow.api_errors import OLDEST_SERVER
from pipeline.kubeflow.kfp_rules import SCHEMA_VERSION
from pipeline.run_parameters import Parameter

if TYPE_CHECKING:
    from pipeline.kubeflow.connection import Connection


# Maximum depth of conditions and loops; a component that contains itself would recurse without end.
_DEEPEST = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Package:
    """A compiled pipeline.

    Attributes:
        digest: fingerprint of the file's content, without comments and layout.
        parameters: name to parameter.
        root: folder of the artifacts; empty: the server's.
        filled: names of the parameters whose placeholders are filled in each run.
        timed: values that need the scheduled time, see `schedule_timed`.
    """

    path: str
    name: str
    digest: str
    parameters: Mapping[str, Parameter]
    root: str = ""
    filled: frozenset[str] = frozenset()
    timed: frozenset[str] = frozenset()


def read_package(path: str) -> Package:
    """Read a compiled pipeline file. Raises ConfigError when it is not one, or no server accepts it."""
    spec, documents = read_documents(path)
    return Package(
        path=path,
        name=spec["pipelineInfo"]["name"],
        digest=hashlib.sha256(json.dumps(documents, sort_keys=True, default=str).encode()).hexdigest()[:16],
        parameters=spec_parameters(spec),
        root=artifact_root(spec),
        filled=filled_parameters(spec),
        timed=schedule_timed(spec),
    )


def step_tree(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of a pipeline's tasks in order, each with those inside it.

    `spec` is from the file or from the server.
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
    """Return the names of tasks in topological order."""
    needs = {name: task.get("dependentTasks", []) for name, task in tasks.items()}
    try:
        ordered = graphlib.TopologicalSorter(needs).static_order()
        return [name for name in ordered if name in tasks]
    except (graphlib.CycleError, TypeError):  # no compiler writes this
        return list(tasks)


def artifact_root(spec: Mapping[str, Any]) -> str:
    """Return the artifact folder of a pipeline; `spec` as in `step_tree`."""
    return str(spec.get("pipeline_spec", spec).get("defaultPipelineRoot", ""))


def spec_parameters(spec: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the declared parameters of a pipeline; `spec` as in `step_tree`."""
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


_COMPONENT = (
    "dag", "dag.tasks", "dag.tasks.*", "dag.tasks.*.componentRef", "dag.tasks.*.inputs",
    "dag.tasks.*.inputs.parameters", "dag.tasks.*.inputs.parameters.*", "inputDefinitions",
    "inputDefinitions.parameters", "inputDefinitions.parameters.*",
)  # fmt: skip
# Paths whose value, if any, must be a mapping; `*` matches every key.
_MAPPINGS = (
    "pipelineInfo",
    "root",
    *(f"root.{path}" for path in _COMPONENT),
    "components",
    "components.*",
    *(f"components.*.{path}" for path in _COMPONENT),
    "deploymentSpec",
    "deploymentSpec.executors",
    "deploymentSpec.executors.*",
)


def read_documents(path: str) -> tuple[dict[str, Any], list[Any]]:
    """Read a compiled pipeline file; return the pipeline, and all documents of the file, including it.

    Raises:
        ConfigError: when it is not a compiled pipeline, or no server accepts it; naming the key.
    """
    text = files.read_user_text(path, what="pipeline file")
    documents = [document for document in parse_yaml_documents(text, path) if document]
    specs = [d for d in documents if isinstance(d, dict) and "pipelineInfo" in d]
    if len(specs) != 1:
        found = "several" if specs else "none"
        raise ConfigError(
            f"expected a compiled pipeline with one pipelineInfo, found {found}; make one with "
            "`detflow compile`",
            where=path,
        )
    for document in documents:
        _check_keys(document, path)
    spec = specs[0]
    version = spec.get("schemaVersion")
    if version != SCHEMA_VERSION:
        remedy = (
            "its kfp is newer than all servers that this version knows: compile it with an older one"
            if _numbers(version) > _numbers(SCHEMA_VERSION)
            else f"compile it with kfp {OLDEST_SERVER} or newer"
        )
        raise ConfigError(f"expected schemaVersion {SCHEMA_VERSION}, found {version}; {remedy}", where=path)
    _check_shape(spec, path)
    return spec, documents


def _numbers(version: object) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"[0-9]{1,9}", str(version))))


def _check_keys(document: Any, path: str) -> None:
    """Refuse keys that are not text: the server reads JSON."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            odd = next((key for key in value if not isinstance(key, str)), None)
            if odd is not None:
                raise ConfigError(
                    f"expected keys that are texts, found {odd!r}; put it in quotes", where=path
                )
            left += value.values()
        elif isinstance(value, list):
            left += value


def _check_shape(spec: Mapping[str, Any], path: str) -> None:
    if "pipeline_spec" in spec:
        raise ConfigError(
            "expected a compiled pipeline, found the key pipeline_spec, under which a server returns one; "
            "take the content of that key",
            where=path,
        )
    for mapping in _MAPPINGS:
        for key, value in _at(spec, mapping.split(".")):
            if not isinstance(value, dict):
                raise _mistaken(key, "a mapping", value, path)
    if "root" not in spec:
        raise _mistaken("root", "a mapping", None, path)
    for key in ("pipelineInfo.name", "defaultPipelineRoot"):
        for _, value in _at(spec, key.split(".")):
            if not isinstance(value, str):
                raise _mistaken(key, "a text", value, path)
    if not spec["pipelineInfo"].get("name"):
        raise _mistaken("pipelineInfo.name", "a text", None, path)


def _mistaken(key: str, expected: str, found: Any, path: str) -> ConfigError:
    shown = "nothing" if found is None else repr(found)[:60]
    return ConfigError(f"{key}: expected {expected}, found {shown}; compile the pipeline again", where=path)


def _at(tree: Any, keys: list[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and value of every match of the keys; `*` matches every key."""
    if not keys:
        yield path, tree
        return
    if not isinstance(tree, dict):
        return  # the check of its parent refuses it
    for key in tree if keys[0] == "*" else [keys[0]] if keys[0] in tree else []:
        yield from _at(tree[key], keys[1:], f"{path}.{key}" if path else key)


SCHEDULE_TIME = "{{$.pipeline_job_schedule_time_utc}}"
"""Filled by the driver, if it is the whole constant of a task's parameter."""

SCHEDULE_TIME_SINCE = "2.17"
"""First server version that fills it; 2.16.0 and 2.16.1 insert an empty text."""


def filled_parameters(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters whose placeholders RunChecker fills before any other step reads them."""
    root = _root(spec)
    taken: dict[str, list[bool]] = {}
    for task in root.get("dag", {}).get("tasks", {}).values():
        inputs = task.get("inputs", {}).get("parameters", {})
        fills = any(s.get("runtimeValue", {}).get("constant") == SCHEDULE_TIME for s in inputs.values())
        for field, source in inputs.items():
            name = source.get("componentInputParameter")
            taken.setdefault(name, []).append(fills and field in FILLED)
    return frozenset(name for name, filled in taken.items() if name and all(filled))


def schedule_timed(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return parameters whose defaults contain `[[ScheduledTime]]`; `""` stands for a constant with it."""
    root = _root(spec)
    defaults = {
        name: entry.get("defaultValue")
        for name, entry in root.get("inputDefinitions", {}).get("parameters", {}).items()
    }
    sources = (
        source
        for task in root.get("dag", {}).get("tasks", {}).values()
        for source in task.get("inputs", {}).get("parameters", {}).values()
    )
    constants = any(_is_timed(source.get("runtimeValue", {}).get("constant")) for source in sources)
    return frozenset(name for name, value in defaults.items() if _is_timed(value)) | (
        {""} if constants else set()
    )


def check_schedule_time(
    connection: "Connection", parameters: Mapping[str, Any], timed: Collection[str], where: str
) -> None:
    """Refuse `[[ScheduledTime]]` on a server that is known not to pass the scheduled time to a run.

    If the server does not report its version, RunChecker stops the run. `timed` is the result of
    `schedule_timed`; `where` is the file or the schedule, for messages.

    Raises:
        ConfigError: naming the parameter and the server's version.
    """
    if not connection.is_before(SCHEDULE_TIME_SINCE):
        return
    asking = [*(set(timed) - parameters.keys()), *(n for n, v in parameters.items() if _is_timed(v))]
    if asking:
        name = sorted(asking)[-1] or "a constant of the pipeline"
        raise ConfigError(
            f"expected a server {SCHEDULE_TIME_SINCE} or newer for [[ScheduledTime]], found"
            f" {connection.server_version}, which gives no run its time; upgrade the server, or use"
            " [[CurrentTime]] or the value itself",
            where=f"{where}: {name}",
        )


def _is_timed(value: Any) -> bool:
    return isinstance(value, str) and placeholders.asks_for_value(value, ("ScheduledTime",))


def check_placeholders(parameters: Mapping[str, Any], filled: Collection[str], where: str) -> None:
    """Refuse placeholders that no step would fill.

    `filled` has the names of the parameters whose placeholders are filled; `where` is the file or the
    schedule.

    Raises:
        ConfigError: naming parameter and placeholder.
    """
    for name, value in parameters.items():
        if not isinstance(value, str) or not placeholders.has_placeholder(value):
            continue
        placeholders.check_placeholders(value, f"{where}: {name}")
        if name not in filled:
            there = f"in {', '.join(sorted(filled))} alone" if filled else "in no parameter"
            raise ConfigError(
                f"expected no placeholder, found {value!r}; this pipeline fills them {there}: give the value"
                " itself, or compile the pipeline with this version of detflow",
                where=f"{where}: {name}",
            )
