"""Holds a request body against the models that kfp-server-api generates from the server's own interface."""

import datetime
import functools
from typing import Any

import kfp_server_api

from tests.support.api_models import Model, is_scalar, walk

# What kubeflow/pipelines#13986 adds, which no released client has (6585b5143d, below `backend/api/v2beta1`,
# run.proto: Run 204, PipelineTask 407, ListTasksResponse 752).
_TASK = {
    **dict.fromkeys(("name", "display_name", "task_id", "run_id", "cache_fingerprint", "scope_path"), "str"),
    **dict.fromkeys(("create_time", "end_time"), "datetime"), "parent_task_id": "str",
    "pods": "list[Pod]", "state": "TaskState", "type": "TaskType", "status_metadata": "StatusMetadata",
    "type_attributes": "TypeAttributes", "inputs": "object", "outputs": "object",
    "child_tasks": "list[object]", "state_history": "list[object]",
}  # fmt: skip
_NEWEST = {
    "V2beta1ListTasksResponse": Model(
        {"tasks": "list[PipelineTask]", "next_page_token": "str", "total_size": "int"}
    ),
    "PipelineTask": Model(_TASK),
    "Pod": Model({"name": "str", "uid": "str", "type": "PodType"}),
    "PodType": Model({}, values=("DRIVER", "EXECUTOR")),
    "TaskState": Model({}, values=("RUNNING", "SUCCEEDED", "SKIPPED", "FAILED", "CACHED")),
    "TaskType": Model({}, values=("ROOT", "RUNTIME", "CONDITION_BRANCH", "CONDITION", "LOOP", "EXIT_HANDLER",
                                  "IMPORTER", "DAG")),
    "StatusMetadata": Model({"message": "str", "custom_properties": "object"}),
    "TypeAttributes": Model({"iteration_index": "str", "iteration_count": "str"}),
}  # fmt: skip

# int64 in the interface, declared as text: on the wire it is a number or its digits.
_INT64 = ("max_concurrency", "interval_second")


class BadBodyError(Exception):
    """What the server answers with 400."""


def check_body(kind: str, value: Any, where: str = "body", *, newest: bool = False) -> None:
    """Refuse unknown keys and wrong types, all the way down.

    Args:
        kind: type in the notation of `openapi_types`: `str`, `list[X]`, `dict(str, X)`, a model's name.
        value: decoded JSON.
        where: path of the value.
        newest: whether the value has what kubeflow/pipelines#13986 added.
    """
    find = _newest_model if newest else _model
    for problem in walk(value, kind, where, find=find, scalar=_is_scalar):
        raise BadBodyError(f"proto: (line 1:2): {problem.where}: {problem.message}")


@functools.cache
def _model(name: str) -> Model:
    model = getattr(kfp_server_api.models, name)
    if not model.openapi_types:
        return Model({}, values=tuple(model.allowable_values))
    return Model({model.attribute_map[field]: kind for field, kind in model.openapi_types.items()})


def _newest_model(name: str) -> Model:
    if name in _NEWEST:
        return _NEWEST[name]
    if name == "V2beta1Run":
        return Model({**_model(name).fields, "task_count": "int", "tasks": "list[PipelineTask]"})
    if name == "V2beta1RunDetails":
        return Model({k: v for k, v in _model(name).fields.items() if k != "task_details"})
    return _model(name)


def _is_scalar(kind: str, value: Any, where: str) -> bool:
    if kind == "str" and where.endswith(_INT64):
        return is_scalar("int", value) or str(value).isdigit()
    if kind == "datetime":
        try:
            return datetime.datetime.fromisoformat(value).tzinfo is not None
        except (TypeError, ValueError):
            return False
    return is_scalar(kind, value)
