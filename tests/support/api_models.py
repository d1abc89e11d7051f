"""Values held against the models of a generated client: unknown keys, wrong types, missing fields.

Clients that the OpenAPI generator writes name their types `str`, `list[X]`, `dict(str, X)` or a model.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

SCALARS = {"str": str, "int": int, "bool": bool, "float": (int, float), "datetime": str}


class Model(NamedTuple):
    """A model: JSON names of its fields with their types, and those that must be there; or an enumeration."""

    fields: Mapping[str, str]
    required: frozenset[str] = frozenset()
    values: tuple[Any, ...] = ()


class Problem(NamedTuple):
    """What is wrong, and where."""

    where: str
    message: str


def walk(
    value: Any,
    kind: str,
    where: str,
    *,
    find: Callable[[str], Model | None],
    scalar: Callable[[str, Any, str], bool] | None = None,
) -> Iterator[Problem]:
    """Yield what decoded JSON has that its type has not, all the way down.

    `find` gives the model of a name, None where only the name is known, such as that of a quantity; `scalar`
    tells whether a scalar of a type fits at a path, which its Python type says otherwise.
    """
    listed, mapped = re.fullmatch(r"list\[(.+)\]", kind), re.fullmatch(r"dict\(str, (.+)\)", kind)
    more = {"find": find, "scalar": scalar}
    if listed or mapped:
        if not isinstance(value, list if listed else dict):
            yield Problem(where, f"expected {kind}, found {value!r}")
            return
        for key, entry in enumerate(value) if listed else value.items():
            yield from walk(entry, (listed or mapped)[1], f"{where}.{key}", **more)
    elif kind in SCALARS:
        if not (scalar or is_scalar)(kind, value, where):
            yield Problem(where, f"expected {kind}, found {value!r}")
    elif kind != "object" and (model := find(kind)) is not None:
        yield from _walk_model(value, kind, where, model, more)


def _walk_model(value: Any, kind: str, where: str, model: Model, more: Any) -> Iterator[Problem]:
    if model.values:
        if value not in model.values:
            yield Problem(where, f"expected one of {model.values}, found {value!r}")
        return
    if not isinstance(value, dict):
        yield Problem(where, f"expected {kind}, found {value!r}")
        return
    for key, entry in value.items():
        if key not in model.fields:
            yield Problem(f"{where}.{key}", f"unknown field of {kind}")
        else:
            yield from walk(entry, model.fields[key], f"{where}.{key}", **more)
    for key in sorted(model.required - set(value)):
        yield Problem(f"{where}.{key}", "missing")


def is_scalar(kind: str, value: Any, where: str = "") -> bool:
    """Tell whether a value is of a scalar type; a bool is no number."""
    return isinstance(value, SCALARS[kind]) and (kind == "bool" or not isinstance(value, bool))
