"""Holds a request body against the models that kfp-server-api generates from the server's own interface."""

from __future__ import annotations

import datetime
import re
from typing import Any

import kfp_server_api

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
    inner = re.fullmatch(r"list\[(.*)\]", kind)
    if inner:
        _expect(isinstance(value, list), kind, value, where)
        for i, entry in enumerate(value):
            check_body(inner.group(1), entry, f"{where}[{i}]")
        return
    inner = re.fullmatch(r"dict\(str, (.*)\)", kind)
    if inner:
        _expect(isinstance(value, dict), kind, value, where)
        for key, entry in value.items():
            check_body(inner.group(1), entry, f"{where}.{key}")
        return
    if kind == "object":
        return
    if kind == "datetime":
        _expect(_is_time(value), kind, value, where)
        return
    if kind in ("str", "int", "bool", "float"):
        _expect(_is_scalar(kind, value, where), kind, value, where)
        return
    _check_model(getattr(kfp_server_api.models, kind), value, where)


def _check_model(model: Any, value: Any, where: str) -> None:
    if not model.openapi_types:
        _expect(value in model.allowable_values, f"one of {model.allowable_values}", value, where)
        return
    _expect(isinstance(value, dict), model.__name__, value, where)
    types = {model.attribute_map[name]: kind for name, kind in model.openapi_types.items()}
    for key, entry in value.items():
        if key not in types:
            raise BadBodyError(f'proto: (line 1:2): unknown field "{key}" in {where}')
        check_body(types[key], entry, f"{where}.{key}")


def _is_scalar(kind: str, value: Any, where: str) -> bool:
    if kind == "str" and where.endswith(_INT64):
        return (isinstance(value, int) and not isinstance(value, bool)) or str(value).isdigit()
    expected = {"str": str, "int": int, "bool": bool, "float": (int, float)}[kind]
    return isinstance(value, expected) and (kind == "bool" or not isinstance(value, bool))


def _is_time(value: Any) -> bool:
    try:
        found = datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return found.tzinfo is not None


def _expect(holds: bool, kind: str, value: Any, where: str) -> None:
    if not holds:
        raise BadBodyError(f"proto: invalid value for {where}: expected {kind}, found {value!r}")
