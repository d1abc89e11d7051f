"""Holds a request body against the models that kfp-server-api generates from the server's own interface."""

import datetime
import functools
from typing import Any

import kfp_server_api

from tests.support.api_models import Model, is_scalar, walk

# int64 in the interface, declared as text: on the wire it is a number or its digits.
_INT64 = ("max_concurrency", "interval_second")


class BadBodyError(Exception):
    """What the server answers with 400."""


def check_body(kind: str, value: Any, where: str = "body") -> None:
    """Refuse unknown keys and wrong types, all the way down.

    Args:
        kind: type in the notation of `openapi_types`: `str`, `list[X]`, `dict(str, X)`, a model's name.
        value: decoded JSON.
        where: path of the value.
    """
    for problem in walk(value, kind, where, find=_model, scalar=_is_scalar):
        raise BadBodyError(f"proto: (line 1:2): {problem.where}: {problem.message}")


@functools.cache
def _model(name: str) -> Model:
    model = getattr(kfp_server_api.models, name)
    if not model.openapi_types:
        return Model({}, values=tuple(model.allowable_values))
    return Model({model.attribute_map[field]: kind for field, kind in model.openapi_types.items()})


def _is_scalar(kind: str, value: Any, where: str) -> bool:
    if kind == "str" and where.endswith(_INT64):
        return is_scalar("int", value) or str(value).isdigit()
    if kind == "datetime":
        try:
            return datetime.datetime.fromisoformat(value).tzinfo is not None
        except (TypeError, ValueError):
            return False
    return is_scalar(kind, value)
