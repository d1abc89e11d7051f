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
from detection_core.errors import ConfigError, one_line
from detection_core.storage import files
from pipeline.extras import require
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


def read_documents(path: str) -> tuple[dict[str, Any], list[Any]]:
    """Read a compiled pipeline file; return the pipeline, and all documents of the file, including it.

    Raises:
        ConfigError: without kfp; when it is not a compiled pipeline, or no server accepts it; naming the key.
    """
    require("cluster", "a package for Kubeflow Pipelines")
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
    version = specs[0].get("schemaVersion")
    if version != SCHEMA_VERSION:
        remedy = (
            "its kfp is newer than all servers that this version knows: compile it with an older one"
            if _numbers(version) > _numbers(SCHEMA_VERSION)
            else f"compile it with kfp {OLDEST_SERVER} or newer"
        )
        raise ConfigError(f"expected schemaVersion {SCHEMA_VERSION}, found {version}; {remedy}", where=path)
    return _parsed(specs[0], path), documents


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


def _parsed(document: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a pipeline as the server parses it, without fields that only a newer kfp knows."""
    from google.protobuf import json_format
    from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

    if "pipeline_spec" in document:
        raise ConfigError(
            "expected a compiled pipeline, found the key pipeline_spec, under which a server returns one; "
            "take the content of that key",
            where=path,
        )
    try:
        spec = json_format.ParseDict(document, PipelineSpec(), ignore_unknown_fields=True)
    except json_format.ParseError as e:
        text = f"expected the fields of a compiled pipeline, found others ({one_line(str(e), 300)})"
        raise ConfigError(f"{text}; compile the pipeline again", where=path) from e
    for key, given in (("pipelineInfo.name", spec.pipeline_info.name), ("root", spec.HasField("root"))):
        if not given:
            text = f"{key}: expected a value, found nothing; compile the pipeline again"
            raise ConfigError(text, where=path)
    # A message's maps have a random order; kfp and the server sort them, too.
    parsed: dict[str, Any] = json.loads(json_format.MessageToJson(spec, sort_keys=True))
    return parsed


SCHEDULE_TIME = "{{$.pipeline_job_schedule_time_utc}}"
"""Filled by the driver, if it is the whole constant of a task's parameter."""

SCHEDULE_TIME_SINCE = "2.17"
"""First server version that fills it; 2.16.0 and 2.16.1 insert an empty text."""


def filled_parameters(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters whose placeholders RunChecker fills before any other step reads them."""
    taken: dict[str, list[bool]] = {}
    for inputs in _task_inputs(spec):
        fills = any(s.get("runtimeValue", {}).get("constant") == SCHEDULE_TIME for s in inputs.values())
        for field, source in inputs.items():
            name = source.get("componentInputParameter")
            taken.setdefault(name, []).append(fills and field in FILLED)
    return frozenset(name for name, filled in taken.items() if name and all(filled))


def schedule_timed(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return parameters whose defaults contain `[[ScheduledTime]]`; `""` stands for a constant with it."""
    declared = _root(spec).get("inputDefinitions", {}).get("parameters", {})
    values = [(name, entry.get("defaultValue")) for name, entry in declared.items()]
    sources = [source for inputs in _task_inputs(spec) for source in inputs.values()]
    values += [("", source.get("runtimeValue", {}).get("constant")) for source in sources]
    return frozenset(name for name, value in values if _is_timed(value))


def _task_inputs(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parameters given to each task of the pipeline, also inside groups: field to source."""
    components = spec.get("pipeline_spec", spec).get("components", {})

    def inputs_in(group: Any, outer: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
        # In a group a parameter has another name; `outer` maps it to the source outside.
        for task in group.get("dag", {}).get("tasks", {}).values() if depth else ():
            own = task.get("inputs", {}).get("parameters", {})
            given = {field: outer.get(s.get("componentInputParameter"), s) for field, s in own.items()}
            inner = components.get(task.get("componentRef", {}).get("name"), {})
            yield from inputs_in(inner, given, depth - 1) if "dag" in inner else [given]

    return list(inputs_in(_root(spec), {}, _DEEPEST))


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
