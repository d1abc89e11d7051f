"""Parameters of a pipeline, and their values from the command line or a schedule."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from detection_core.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a pipeline.

    Attributes:
        type: `STRING`, `NUMBER_INTEGER`, `NUMBER_DOUBLE`, `BOOLEAN`, `LIST` or `STRUCT`.
        required: whether it has no default and is not optional.
    """

    name: str
    type: str
    required: bool


def parse_parameters(parameters: Mapping[str, Parameter], texts: Sequence[str]) -> dict[str, Any]:
    """Return `NAME=VALUE` texts as typed values.

    Raises:
        ConfigError: for an unknown name, with the nearest one, or a value of the wrong type.
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
