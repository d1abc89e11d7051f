"""Convert pydantic's validation errors to one error with file, line, key and remedy."""

import contextlib
import difflib
import re
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import pydantic
from pydantic_core import ErrorDetails, PydanticCustomError

from detection_core.bounded.plain_yaml import Locations
from detection_core.errors import ConfigError, shorten
from pipeline.settings.setting_types import KIND_MARK

_Key = tuple[int | str, ...]
_Problem = tuple[str, str]  # key of the fault, "" for all keys; and what is wrong

_LISTED = 10
_LONGEST_KEY = 80
_DICT_KEY = "[key]"


def contradictions(problems: Sequence[tuple[str, str]]) -> PydanticCustomError:
    """Return a validator's exception for values that contradict each other.

    A problem is a key, relative to the validator's model, and a message.
    """
    return PydanticCustomError("contradictions", "values contradict each other", {"problems": list(problems)})


@contextlib.contextmanager
def locating_errors(
    model: type[pydantic.BaseModel], locations: Locations, prefix: str = ""
) -> Iterator[None]:
    """Replace pydantic's error in the block by one with file, line, key and remedy.

    `locations` has the `file:line` or flag of each key, and of missing keys under "". The prefix of a
    section's keys ends with a dot.

    Raises:
        ConfigError: naming unknown keys, with the nearest ones, missing keys, and values of a wrong kind.
    """
    try:
        yield
    except pydantic.ValidationError as error:
        found = [problem for details in error.errors() for problem in _problems(model, details, prefix)]
        # Not `from error`: it holds the values, which may include a secret.
        raise _refusal(found, locations) from None


def _refusal(problems: Sequence[_Problem], locations: Locations) -> ConfigError:
    """Return one error for all problems, in the order of the file."""
    located = [(_location(key, locations), text) for key, text in dict.fromkeys(problems)]
    located.sort(key=lambda entry: _line(entry[0]))
    (where, first), *rest = located
    lines = [first]
    lines += [f"  {location}: {text}" for location, text in rest[: _LISTED - 1]]
    if len(located) > _LISTED:
        lines.append(f"  and {len(located) - _LISTED:,} more")
    return ConfigError("\n".join(lines), where=where)


def _location(key: str, locations: Locations) -> str:
    """Return the location of a key, or of its nearest parent."""
    while key not in locations:
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return locations[key]


def _line(location: str) -> float:
    number = location.rpartition(":")[2]
    return int(number) if re.fullmatch("[0-9]{1,18}", number) else float("inf")


def _problems(model: type[pydantic.BaseModel], details: ErrorDetails, prefix: str) -> list[_Problem]:
    at = tuple(part for part in details["loc"] if not str(part).startswith(KIND_MARK))
    kind, context = details["type"], details.get("ctx", {})
    if kind == "contradictions":
        below = [(".".join(filter(None, (_join(at), key))), text) for key, text in context["problems"]]
        return [_about(prefix + key, text) for key, text in below]
    if kind in ("extra_forbidden", "invalid_key"):
        return [_unknown_key(model, at, prefix)]
    if kind == "missing":
        key = prefix + _join(at)
        return [(key, f"the key {key} is missing; add it")]
    if len(at) > 1 and at[-1] == _DICT_KEY:
        at = at[:-1]
        key = prefix + ".".join(filter(None, (_join(at[:-1]), _key_text(details["input"]))))
        if kind == "string_type":
            return [_about(key, f"expected a text as the key, found {_found(details)}; put it in quotes")]
        return [_about(key, _message(details))]
    return [_about(prefix + _join(at), _message(details))]


def _about(key: str, message: str) -> _Problem:
    return key, f"{key}: {message}" if key else message


def _unknown_key(model: type[pydantic.BaseModel], at: _Key, prefix: str) -> _Problem:
    holder = _model_at(model, at[:-1])
    known = list(holder.model_fields) if holder else []
    section = prefix + "".join(f"{part}." for part in (_join(at[:-1]),) if part)
    key = f"{section}{_key_text(at[-1])}"
    near = difflib.get_close_matches(str(at[-1])[:_LONGEST_KEY], known, n=1)
    hint = f"; did you mean {section}{near[0]}?" if near else f"; known keys: {', '.join(known)}"
    return key, f"unknown key {key}{hint}"


def _model_at(model: Any, at: _Key) -> type[pydantic.BaseModel] | None:
    for part in at:
        if isinstance(model, type) and issubclass(model, pydantic.BaseModel):
            model = model.model_fields[str(part)].annotation
        else:
            model = typing.get_args(model)[-1]
        while typing.get_origin(model) is typing.Annotated:
            model = typing.get_args(model)[0]
    return model if isinstance(model, type) and issubclass(model, pydantic.BaseModel) else None


def _join(at: _Key) -> str:
    key = ""
    for part in at:
        key += f"[{part}]" if isinstance(part, int) else f".{_key_text(part)}"
    return key.removeprefix(".")


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) and key.isprintable() and len(key) <= _LONGEST_KEY else shorten(key)


def _found(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    return str(context["found"]) if "found" in context else shorten(details["input"])


_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing_size": "a whole number of at most 64 bits",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "nothing",
}


def _message(details: ErrorDetails) -> str:
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    found = _found(details)
    if kind == "literal_error":
        return _choice(re.findall(r"'([^']*)'", context["expected"]), value, found)
    if kind == "float_type" and type(value) is int:  # an integer beyond the range of floats
        kind = "finite_number"
    expected = context.get("expected") or _EXPECTED.get(kind) or details["msg"]
    quotes = kind == "string_type" and isinstance(value, int | float)
    return f"expected {expected}, found {found}{'; put it in quotes' if quotes else ''}"


def _choice(choices: Sequence[str], value: Any, found: str) -> str:
    near = difflib.get_close_matches(value[:_LONGEST_KEY], choices, n=1) if isinstance(value, str) else []
    nothing = " or nothing" if "" in choices else ""
    hint = f"; did you mean {near[0]}?" if near and near[0] else ""
    return f"expected {', '.join(filter(None, choices))}{nothing}, found {found}{hint}"
