"""Losses and augmentations that are registered from outside the package, with options.

Call `register_part` when the process starts, before a config is checked. The config then names the part, here
a classification loss:

    classification_loss { registered { name: "poly" options { key: "epsilon" value: "1.5" } } }

Registering needs no TensorFlow; `build` may import it when it is called.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from detection_core.allowed_values import Option, Value
from detection_core.config.suggestions import did_you_mean
from detection_core.detectors.rules import Check, no_problems
from detection_core.errors import Problem
from detection_core.protos.model_pb2 import ExperimentalModel
from detection_core.protos.registered_pb2 import RegisteredPart

PartKind = Literal["classification_loss", "localization_loss", "augmentation"]
_SHOWN = 60
_BOOLEANS = {"true": True, "false": False}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Registration:
    """A part from outside.

    Attributes:
        build: takes all options by name, returns the part: a `ClassificationLoss`, a `LocalizationLoss` or an
            `Augmentation`.
        options: name -> option.
        check: finds options that contradict each other, from the message and its field path.
    """

    build: Callable[..., Any]
    options: Mapping[str, Option]
    check: Check


PARTS: dict[tuple[str, str], Registration] = {}
"""Kind and name to part; `register_part` adds to it."""


def register_part(
    kind: PartKind,
    name: str,
    build: Callable[..., Any],
    *,
    options: Mapping[str, Option] | None = None,
    check: Check = no_problems,
) -> None:
    """Register a part from outside the package.

    Args:
        kind: where a config may name it.
        name: its name in configs.
        build: takes all options as keyword arguments, returns the part.
        options: by name.
        check: further checks of its `RegisteredPart` message, run after each option is valid.

    Raises:
        ValueError: when another part of the kind has the name.
    """
    if (kind, name) in PARTS:
        raise ValueError(f"expected a new name for a {kind}, found {name!r}, which is registered; rename it")
    PARTS[kind, name] = Registration(build=build, options=dict(options or {}), check=check)


def registered_problems(kind: PartKind, message: RegisteredPart, path: str) -> Iterator[Problem]:
    """Find an unregistered part, and unknown or invalid options."""
    part = PARTS.get((kind, message.name))
    if part is None:
        known = sorted(name for of_kind, name in PARTS if of_kind == kind)
        text = f"expected a registered {kind}, found {message.name[:_SHOWN]!r}; "
        listed = (
            f"use one of {', '.join(known)}" if known else "call register_part before the config is checked"
        )
        hint = did_you_mean(message.name[:_SHOWN], known, listed)
        yield Problem(path=f"{path}.name", message=text + hint)
        return
    problems = list(option_problems(part.options, message, path))
    yield from problems
    if not problems:
        yield from part.check(message, path)


def build_registered(kind: PartKind, message: RegisteredPart) -> Any:
    """Build a registered part from a message without problems."""
    part = PARTS[kind, message.name]
    return part.build(**option_values(part.options, message))


def option_problems(
    options: Mapping[str, Option], message: RegisteredPart | ExperimentalModel, path: str
) -> Iterator[Problem]:
    """Find options in a message that are not among the known ones, and invalid values."""
    for name in message.options:
        if name not in options:
            has = ", ".join(options) or "none"
            text = (
                f"expected an option of {message.name}, which has {has}, found {name[:_SHOWN]!r}; correct it"
            )
            yield Problem(path=f"{path}.options[{name[:_SHOWN]}]", message=text)
    for name, text in message.options.items():
        if name in options:
            yield from _wrong(options[name], text, f"{path}.options[{name}]")


def option_values(
    options: Mapping[str, Option], message: RegisteredPart | ExperimentalModel
) -> dict[str, Value]:
    """Return the value of every option, in the type of its default; the message must be valid."""
    return {
        name: _parsed(option, message.options[name]) if name in message.options else option.default
        for name, option in options.items()
    }


def _wrong(option: Option, text: str, path: str) -> Iterator[Problem]:
    try:
        value = _parsed(option, text)
    except ValueError:
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(option.default)]
        yield Problem(path=path, message=f"expected {kind}, found {text[:_SHOWN]!r}; correct it")
        return
    if option.allowed is not None and not isinstance(value, str) and not option.allowed.holds(value):
        yield Problem(path=path, message=f"expected {option.allowed.text}, found {text}; change it")


def _parsed(option: Option, text: str) -> Value:
    """Read an option's value; raise ValueError if the text does not have the option's type."""
    if isinstance(option.default, bool):
        if text not in _BOOLEANS:
            raise ValueError(text)
        return _BOOLEANS[text]
    return type(option.default)(text)
