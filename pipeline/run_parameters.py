"""Parameters of a pipeline, which may change from run to run, and their values."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from component_specs import JOBS
from component_specs.annotations import job_fields
from detection_core.bounded.plain_yaml import module_table
from detection_core.config.suggestions import did_you_mean
from detection_core.errors import ConfigError
from pipeline.settings.step_ids import RUN_CHECKER, TRAINER
from pipeline.steps import Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a pipeline; its type is KFP's, such as `NUMBER_INTEGER`."""

    name: str
    type: str
    required: bool


def parse_parameters(parameters: Mapping[str, Parameter], texts: Sequence[str]) -> dict[str, Any]:
    """Return `NAME=VALUE` texts as typed values; ConfigError for an unknown name or another type."""
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
    """Check names and types of values, and required ones; ConfigError names the parameter."""
    for name, value in values.items():
        parameter = _find(parameters, name, where)
        expected, words = _TYPES.get(parameter.type, _ANY)
        if parameter.type in _TYPES and not _fits(value, expected):
            raise ConfigError(f"{name}: expected {words}, found {value!r}; correct the value", where=where)
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
    known = f"the pipeline has {', '.join(parameters) or 'none'}"
    raise ConfigError(f"no parameter {name}; {did_you_mean(name, parameters, known)}", where=where)


def _parse(parameter: Parameter, text: str) -> Any:
    if parameter.type == "STRING":
        return text
    try:
        value = json.loads(text.strip())
    except ValueError:
        value = None
    expected, words = _TYPES.get(parameter.type, _ANY)
    if value is None or not _fits(value, expected):
        where = f"--param {parameter.name}"
        raise ConfigError(f"expected {words}, found {text!r}; correct the value", where=where)
    return value


def _fits(value: Any, expected: tuple[type, ...]) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, expected) and (bool in expected or not isinstance(value, bool))


# Kubeflow's type to Python's types, and its name in messages.
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "STRING": ((str,), "a text"),
    "NUMBER_INTEGER": ((int,), "a whole number"),
    "NUMBER_DOUBLE": ((int, float), "a number"),
    "BOOLEAN": ((bool,), "true or false"),
    "LIST": ((list,), "a list, as JSON"),
    "STRUCT": ((dict,), "a map, as JSON"),
}
_ANY = ((object,), "JSON")
_KFP_TYPES = {str: "STRING", int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE", bool: "BOOLEAN"}

CHECKER = RUN_CHECKER
IMAGE = "image"
"""The only parameter that belongs to no step: the steps' image on a cluster."""


@dataclasses.dataclass(frozen=True)
class RunParameter:
    """A parameter of the pipeline.

    Attributes:
        targets: (step id, parameter field) pairs that get its value; missing steps are skipped. Texts go to
            RunChecker only, which fills placeholders; other steps take the results.
    """

    name: str
    description: str
    targets: tuple[tuple[str, str], ...]


_OF_TRAINER = ("train_steps", "learning_rate")
RUN_PARAMETERS = tuple(
    RunParameter(name, text, tuple((step, name) for step in (CHECKER, *[TRAINER] * (name in _OF_TRAINER))))
    for name, text in module_table(__file__).items()
)


def parameter_type(parameter: RunParameter) -> type:
    """Return the Python type of a parameter's values: that of its first field."""
    step, field = parameter.targets[0]
    # The steps with parameters are named after their components.
    return job_fields(JOBS[step]).parameters[field].codec.carried_as


def declared_parameters() -> dict[str, Parameter]:
    """Return the parameters as a compiled pipeline declares them, without the image; none is required."""
    return {
        p.name: Parameter(name=p.name, type=_KFP_TYPES[parameter_type(p)], required=False)
        for p in RUN_PARAMETERS
    }


def set_parameters(steps: Sequence[Step], values: Mapping[str, Any]) -> list[Step]:
    """Return steps with a run's values in their fields."""
    given: dict[str, dict[str, Any]] = {}
    for parameter in RUN_PARAMETERS:
        if parameter.name in values:
            for step, field in parameter.targets:
                given.setdefault(step, {})[field] = parameter_type(parameter)(values[parameter.name])
    return [dataclasses.replace(s, parameters={**s.parameters, **given.get(s.id, {})}) for s in steps]
