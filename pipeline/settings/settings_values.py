"""Settings from plain values, by the annotations of their dataclasses.

A field's annotation says all: its type, down to the elements of lists and maps, and `Annotated` rules such as
`between(1, 10)`.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from detection_core.errors import ConfigError
from pipeline.settings.settings_yaml import Places

MAX_TEXT = 32_768
_WHOLE = 2**63
_SHOWN = 80


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a value must hold beside its type.

    Attributes:
        holds: tells whether a value of the right type is fine.
        expected: in words, after 'expected'.
    """

    holds: Callable[[Any], bool]
    expected: str


MULTILINE = Rule(lambda _: True, "a text")
"""On a text that may have several lines."""

NOT_EMPTY = Rule(bool, "something")


def between(low: float, high: float) -> Rule:
    """Return the rule that a number lies in a closed interval."""
    return Rule(lambda value: low <= value <= high, f"{low:,} to {high:,}")


def matching(pattern: str, expected: str, *, longest: int = MAX_TEXT) -> Rule:
    """Return the rule that a text matches a pattern as a whole and is not too long."""
    compiled = re.compile(pattern)
    return Rule(lambda text: len(text) <= longest and compiled.fullmatch(text) is not None, expected)


def one_of(*choices: str) -> Rule:
    """Return the rule that a text is one of a few."""
    return Rule(lambda text: text in choices, f"one of {', '.join(filter(None, choices))}")


def show(value: Any) -> str:
    """Return a value as it may stand in a message: one short line."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python turns into text
        text = "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"


def place_of(key: str, places: Places, path: str) -> str:
    """Return where a key was given, or what holds it; the file where neither is known."""
    while key:
        if key in places:
            return places[key]
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return path


@dataclasses.dataclass(frozen=True)
class Source:
    """Where values come from, for errors.

    Attributes:
        path: the settings file.
        places: where each key was given.
    """

    path: str
    places: Places = dataclasses.field(default_factory=dict)

    def error(self, key: str, message: str) -> ConfigError:
        """Return the error about a key."""
        return ConfigError(f"{key}: {message}" if key else message, where=self.place(key))

    def place(self, key: str) -> str:
        """Return where a key was given."""
        return place_of(key, self.places, self.path)


def settings_fields(cls: Any) -> dict[str, dataclasses.Field]:
    """Return a settings class's fields by name."""
    return {f.name: f for f in dataclasses.fields(cls)}


@functools.cache
def field_hints(cls: Any) -> dict[str, Any]:
    """Return the annotations of a settings class's fields, rules included."""
    return typing.get_type_hints(cls, include_extras=True)


def build_settings(cls: Any, tree: Mapping[Any, Any], source: Source, prefix: str = "") -> Any:
    """Return an instance of a settings class.

    Args:
        cls: a dataclass of annotated fields.
        tree: key to plain value.
        source: where the values come from.
        prefix: key of `tree`, with a dot at its end, where it is a section.

    Raises:
        ConfigError: for an unknown key, naming the nearest; a missing one; or a value of the wrong kind.
    """
    fields, hints = settings_fields(cls), field_hints(cls)
    for key in tree:
        if key not in fields:
            near = difflib.get_close_matches(str(key)[:_SHOWN], fields, n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else f"; known keys: {', '.join(fields)}"
            message = f"unknown key {prefix}{_key_text(key)}{hint}"
            raise ConfigError(message, where=source.place(f"{prefix}{key}"))
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in tree:
            value = tree[name]
            if field.metadata.get("text") and _is_unquoted(value):
                value = str(value)
            values[name] = _read(hints[name], value, f"{prefix}{name}", source)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            where = source.place(prefix.rstrip("."))
            raise ConfigError(f"the key {prefix}{name} is missing; add it", where=where)
    return cls(**values)


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) and key.isprintable() and len(key) <= _SHOWN else show(key)


def _is_unquoted(value: Any) -> bool:
    """Tell a number or a date, as YAML reads 3 and 2026-11-21, where a text is meant."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < _WHOLE
    return isinstance(value, float | datetime.date)


def _read(hint: Any, value: Any, key: str, source: Source) -> Any:
    """Return a value as its annotation wants it."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *rules = typing.get_args(hint)
        multiline = MULTILINE in rules
        found = _text(value, key, source, multiline=True) if multiline else _read(inner, value, key, source)
        for rule in rules:
            if not rule.holds(found):
                raise source.error(key, f"expected {rule.expected}, found {show(found)}")
        return found
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise source.error(key, f"expected a mapping, found {show(value)}")
        return build_settings(hint, value, source, f"{key}.")
    origin = typing.get_origin(hint) or hint
    return _READERS[origin](hint, value, key, source)


def _map(hint: Any, value: Any, key: str, source: Source) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise source.error(key, f"expected a mapping, found {show(value)}")
    of_key, of_value = typing.get_args(hint)
    found = {}
    for name, inner in value.items():
        path = f"{key}.{_key_text(name)}"
        if not isinstance(name, str):
            raise source.error(path, f"expected a text as the key, found {show(name)}; put it in quotes")
        found[_read(of_key, name, path, source)] = _read(of_value, inner, path, source)
    return found


def _list(hint: Any, value: Any, key: str, source: Source) -> list[Any]:
    if not isinstance(value, list):
        raise source.error(key, f"expected a list, found {show(value)}")
    (of_element,) = typing.get_args(hint)
    return [_read(of_element, inner, f"{key}[{i}]", source) for i, inner in enumerate(value)]


def _text(value: Any, key: str, source: Source, *, multiline: bool = False) -> str:
    if not isinstance(value, str):
        quotes = "; put it in quotes" if isinstance(value, int | float | datetime.date) else ""
        raise source.error(key, f"expected a text, found {show(value)}{quotes}")
    if len(value) > MAX_TEXT:
        raise source.error(key, f"expected a text of at most {MAX_TEXT:,} characters, found {len(value):,}")
    kept = "\n\t" if multiline else ""
    odd = next((c for c in value if c not in kept and (c < " " or "\x7f" <= c < "\xa0" or _surrogate(c))), "")
    if odd:
        raise source.error(key, f"expected a text without control characters, found {show(value)}")
    return value


def _surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _whole_number(hint: Any, value: Any, key: str, source: Source) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise source.error(key, f"expected a whole number, found {show(value)}")
    if not -_WHOLE <= value < _WHOLE:
        raise source.error(key, f"expected a whole number of at most 64 bits, found {show(value)}")
    return value


def _number(hint: Any, value: Any, key: str, source: Source) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise source.error(key, f"expected a number, found {show(value)}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise source.error(key, f"expected a finite number, found {show(value)}")
    return found


def _flag(hint: Any, value: Any, key: str, source: Source) -> bool:
    if not isinstance(value, bool):
        raise source.error(key, f"expected true or false, found {show(value)}")
    return value


def _choice(hint: Any, value: Any, key: str, source: Source) -> Any:
    choices = typing.get_args(hint)
    if isinstance(value, str) and value in choices:
        return value
    near = difflib.get_close_matches(str(value)[:_SHOWN], choices, n=1) if isinstance(value, str) else []
    nothing = " or nothing" if "" in choices else ""
    expected = f"{', '.join(c for c in choices if c)}{nothing}"
    hint_text = f"; did you mean {near[0]}?" if near and near[0] else ""
    raise source.error(key, f"expected {expected}, found {show(value)}{hint_text}")


# What of a union a plain value is meant for.
_PLAIN: dict[Any, tuple[type, ...]] = {
    dict: (dict,),
    list: (list,),
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    types.NoneType: (types.NoneType,),
}
_WORDS = {
    dict: "a mapping",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    types.NoneType: "nothing",
}


def _union(hint: Any, value: Any, key: str, source: Source) -> Any:
    arms = {typing.get_origin(arm) or arm: arm for arm in typing.get_args(hint)}
    for kind, arm in arms.items():
        if isinstance(value, _PLAIN[kind]) and (kind is bool or not isinstance(value, bool)):
            return _read(arm, value, key, source)
    *most, last = (_WORDS[kind] for kind in arms)
    raise source.error(key, f"expected {', '.join(most)} or {last}, found {show(value)}")


def _plain(hint: Any, value: Any, key: str, source: Source) -> Any:
    """Return a value of any kind that YAML writes plainly, all that is in it looked at."""
    if isinstance(value, dict):
        return _map(dict[str, Any], value, key, source)
    if isinstance(value, list):
        return _list(list[Any], value, key, source)
    if isinstance(value, str):
        return _text(value, key, source, multiline=True)
    if value is None or isinstance(value, bool):
        return value
    return (
        _whole_number(hint, value, key, source)
        if isinstance(value, int)
        else _number(hint, value, key, source)
    )


_READERS: dict[Any, Callable[[Any, Any, str, Source], Any]] = {
    Any: _plain,
    dict: _map,
    list: _list,
    str: lambda hint, value, key, source: _text(value, key, source),
    int: _whole_number,
    float: _number,
    bool: _flag,
    types.NoneType: lambda hint, value, key, source: None,
    types.UnionType: _union,
    typing.Union: _union,
    typing.Literal: _choice,
}
