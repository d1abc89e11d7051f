"""The search-space file: fields of the pipeline.config and their possible values."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from detection_core.bounded.plain_yaml import parse_yaml
from detection_core.bounded.text_file import read_text_file
from detection_core.errors import ConfigError, one_line, shorten
from detection_core.storage import files

Scalar = bool | int | float | str
_PARAMETER_KEYS = ("low", "high", "log", "step", "choices")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """The possible values of a field: a range of numbers, or choices.

    Attributes:
        low: lower end of the range.
        high: upper end of the range; both ends are integers, or neither.
        log: whether the range is searched on a logarithmic scale.
        step: distance of two values in the range; None: continuous.
        choices: values instead of a range, as in an override.
    """

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    step: int | float | None = None
    choices: tuple[Scalar, ...] = ()

    @property
    def extremes(self) -> tuple[Scalar, ...]:
        """Values to check a field with: both ends of the range, or every choice."""
        if self.choices:
            return self.choices
        return tuple(end for end in (self.low, self.high) if end is not None)


class _Options(BaseModel):
    """Options of a search.

    Attributes:
        trials: total number of trainings.
        sampler: `tpe`, the tree-structured Parzen estimator, or `random`.
        pruner: ends trainings early: `median` those below the median of the others at the same validation;
            `hyperband`; `none`.
        startup_trials: trainings before the sampler uses earlier results and before pruning.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    trials: int = Field(default=20, ge=1, le=100_000)
    sampler: Literal["tpe", "random"] = "tpe"
    pruner: Literal["median", "hyperband", "none"] = "median"
    startup_trials: int = Field(default=5, ge=0)
    seed: int = Field(default=0, ge=0)


class _File(_Options):
    """The file's content."""

    parameters: dict[str, dict[str, Any]] = Field(min_length=1)


class Space(_Options):
    """A search space: field path, or short name, to possible values in the order of the file; and options."""

    parameters: dict[str, Parameter]


def load_space(path: str) -> Space:
    """Read a search-space file.

    Raises:
        ConfigError: naming the file and the key.
    """
    if not files.exists(path):
        raise ConfigError("expected a file that says what is searched, found none", where=path)
    tree = parse_yaml(read_text_file(path, what="file of a search"), path)
    if not isinstance(tree, dict):
        raise ConfigError("expected a mapping with the key parameters", where=path)
    try:
        given = _File.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"{first['msg']}, found {shorten(first.get('input'))}", where=f"{path}, {one_line(key)}"
        ) from error
    parameters = {
        name: _parameter(spec, f"{path}, parameters.{one_line(name)}")
        for name, spec in given.parameters.items()
    }
    return Space(parameters=parameters, **given.model_dump(exclude={"parameters"}))


def _parameter(spec: Mapping[str, Any], where: str) -> Parameter:
    unknown = [key for key in spec if key not in _PARAMETER_KEYS]
    if unknown:
        raise ConfigError(
            f"expected some of {', '.join(_PARAMETER_KEYS)}, found {shorten(unknown[0])}", where=where
        )
    if "choices" in spec:
        return _choices(spec, where)
    if "low" not in spec or "high" not in spec:
        raise ConfigError("expected low and high, or choices; give both ends", where=where)
    low, high = _number(spec["low"], f"{where}.low"), _number(spec["high"], f"{where}.high")
    if isinstance(low, float) or isinstance(high, float):
        low, high = float(low), float(high)
    step = None if spec.get("step") is None else _number(spec["step"], f"{where}.step")
    log = spec.get("log", False)
    if not isinstance(log, bool):
        raise ConfigError(f"expected true or false, found {shorten(log)}", where=f"{where}.log")
    if not low < high:
        raise ConfigError(f"expected more than low, which is {low}, found {high}", where=f"{where}.high")
    if log and low <= 0:
        raise ConfigError(f"expected more than 0 on a log scale, found {low}", where=f"{where}.low")
    if step is not None and (log or not 0 < step <= high - low):
        text = "no step on a log scale" if log else f"a number above 0, up to {high - low}"
        raise ConfigError(f"expected {text}, found {step}", where=f"{where}.step")
    if step is not None and isinstance(low, int) and not isinstance(step, int):
        raise ConfigError(
            f"expected a whole number, as low and high are, found {step}", where=f"{where}.step"
        )
    return Parameter(low=low, high=high, log=log, step=step)


def _choices(spec: Mapping[str, Any], where: str) -> Parameter:
    choices = spec["choices"]
    if len(spec) > 1:
        raise ConfigError("expected choices, or low and high, found both; remove one", where=where)
    if not isinstance(choices, list) or not choices or not all(isinstance(c, Scalar) for c in choices):
        text = "expected a list of values; write messages and lists as an override takes them, in quotes"
        raise ConfigError(text, where=f"{where}.choices")
    if len({(type(c), c) for c in choices}) < len(choices):
        raise ConfigError("expected each value once; remove the others", where=f"{where}.choices")
    return Parameter(choices=tuple(choices))


def _number(value: Any, where: str) -> int | float:
    """Return a number; YAML reads `1e-4`, which has no point, as text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"expected a number, found {shorten(value)}", where=where)
    return value
