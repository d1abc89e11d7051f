"""Declarations of hyper-parameters, and readers that convert text or YAML values or refuse them.

google/automl's parser keeps some values that its code then misreads or fails on. These readers convert or
refuse them:

- `heads=segmentation` and `heads=segmentation*` mean the one head;
- ids of a label map given as text (`label_map.1=cat`) become numbers;
- `1e-3` in YAML, which YAML reads as a string, becomes a number;
- a `*` in a text, for example in `var_freeze_expr`, makes a list, which is refused;
- `loss_scale=2**16` (the list 2, "", 16) and any mapping or list in place of a number are refused.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from detection_core.allowed_values import Range
from detection_core.config.suggestions import did_you_mean
from detection_core.errors import ConfigError, shorten

Reader = Callable[[Any, str], Any]
"""Converts a value; the second argument is its path, for errors."""

_SIDE = Range(1, 16_384, "a number of pixels from 1 to 16,384")
_SIZE_TEXT = re.compile(r"\s*(\d{1,6})[xX](\d{1,6})\s*")
_SIZES = "a side in pixels, or a text WIDTHxHEIGHT such as 640x512"
_SWITCHES = {"true": True, "false": False}


def refusal(expected: str, found: Any, where: str, remedy: str = "correct it") -> ConfigError:
    """Return the error for an unexpected value."""
    return ConfigError(f"expected {expected}, found {shorten(found)}; {remedy}", where=where)


def number(allowed: Range) -> Reader:
    """Return a reader of numbers in an interval."""
    return lambda value, where: _number(value, allowed, where)


def whole(allowed: Range) -> Reader:
    """Return a reader of whole numbers in an interval."""

    def read(value: Any, where: str) -> int:
        found = _number(value, allowed, where)
        if found != int(found):
            raise refusal(f"a whole number ({allowed.text})", value, where)
        return int(found)

    return read


def choice(*names: str, any_case: bool = False) -> Reader:
    """Return a reader of one of the given names."""

    def read(value: Any, where: str) -> str:
        found = value.lower() if any_case and isinstance(value, str) else value
        if found in names and isinstance(found, str):
            return found
        hint = did_you_mean(str(found).strip(), names, "choose one")
        raise refusal(f"one of {', '.join(names)}", value, where, hint)

    return read


def optional(read: Reader, *, absent: Any = None) -> Reader:
    """Return a reader that converts None and an empty text to `absent`."""
    return lambda value, where: absent if value is None or value == "" else read(value, where)


def switch(value: Any, where: str) -> bool:
    """Read true or false; 0, 1 and None are converted as in Python."""
    if isinstance(value, str) and value in _SWITCHES:
        return _SWITCHES[value]
    if value is None or (isinstance(value, bool | int) and value in (0, 1)):
        return bool(value)
    raise refusal("true or false", value, where)


def text(value: Any, where: str) -> str:
    """Read a text; refuse other types, including the list that a text with a `*` has become."""
    if isinstance(value, str):
        return value
    remedy = "correct it"
    if isinstance(value, list):
        remedy = "a * in a key=value pair separates the elements of a list: write this value in a YAML file"
    raise refusal("a text", value, where, remedy)


def expression(value: Any, where: str) -> str:
    """Read a regular expression."""
    found = text(value, where)
    try:
        re.compile(found)
    except (re.error, RecursionError, OverflowError) as error:
        raise refusal(f"a regular expression ({error})", value, where) from error
    return found


def table(value: Any, where: str) -> Mapping[str, Any]:
    """Read a nested mapping unchanged."""
    if not isinstance(value, Mapping):
        raise refusal("a table", value, where)
    return dict(value)


def image_size(value: Any, where: str) -> tuple[int, int]:
    """Read a side, a text WIDTHxHEIGHT or a tuple of height and width, to height and width.

    Raises:
        ConfigError: for other values. A list is refused, as in google/automl: its order of sides is unclear.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return _side(value, where), _side(value, where)
    if isinstance(value, tuple) and len(value) == 2:
        return _side(value[0], where), _side(value[1], where)
    match = _SIZE_TEXT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refusal(_SIZES, value, where)
    return _side(int(match[2]), where), _side(int(match[1]), where)


def channels(value: Any, where: str) -> tuple[float, float, float]:
    """Read one number for all channels, or three."""
    values = _listed(value)
    if len(values) == 1:
        values = values * 3
    if len(values) != 3:
        raise refusal("a number, or three for red, green and blue", value, where)
    red, green, blue = (_finite(v, where) for v in values)
    return red, green, blue


def divisors(value: Any, where: str) -> tuple[float, float, float]:
    """Read one or three divisors."""
    found = channels(value, where)
    if not all(v > 0 for v in found):
        raise refusal("numbers above 0, which pixels are divided by", value, where)
    return found


def aspect_ratios(value: Any, where: str) -> tuple[float | tuple[float, float], ...]:
    """Read ratios of width to height, or pairs of a width factor and a height factor."""
    values = _listed(value)
    if not values:
        raise refusal("at least one ratio", value, where)
    return tuple(_ratio(v, f"{where}[{i}]") for i, v in enumerate(values))


def anchor_scale(value: Any, where: str) -> float | tuple[float, ...]:
    """Read one scale for all levels, or one for each."""
    if isinstance(value, list | tuple):
        return tuple(_positive(v, f"{where}[{i}]") for i, v in enumerate(value))
    return _positive(value, where)


def names_of(*names: str) -> Reader:
    """Return a reader of a list of different names; a single name becomes a list of one."""
    read_one = choice(*names)

    def read(value: Any, where: str) -> tuple[str, ...]:
        given = [v for v in _listed(value) if v != ""]  # an asterisk at the end leaves an empty text
        found = tuple(read_one(v, where) for v in given)
        if not found or len(set(found)) != len(found):
            raise refusal(f"one or more of {', '.join(names)}", value, where)
        return found

    return read


def label_map(value: Any, where: str) -> Mapping[int, str] | str:
    """Read a mapping of class id to name, or the name of one, which `label_maps.resolve_label_map` reads."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise refusal("a table of class id: name, a .yaml file, or one of coco, voc, waymo", value, where)
    return {_class_id(key, where): text(name, f"{where}[{key}]") for key, name in value.items()}


def epoch_or_whole(allowed: Range) -> Reader:
    """Return a reader of "epoch" or a whole number."""
    read_whole = whole(allowed)
    return lambda value, where: value if value == "epoch" else read_whole(value, where)


def _class_id(key: Any, where: str) -> int:
    digits = key if isinstance(key, int) and not isinstance(key, bool) else None
    if isinstance(key, str) and key.strip().isdecimal():
        digits = int(key.strip()[:12])
    if digits is None or not 0 <= digits < 2**31:
        raise refusal("a class id, a whole number of 0 or more", key, where)
    return digits


def _ratio(value: Any, where: str) -> float | tuple[float, float]:
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise refusal("a pair of factors, of the width and of the height", value, where)
        return _positive(value[0], where), _positive(value[1], where)
    return _positive(value, where)


def _side(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not _SIDE.holds(value):
        raise refusal(_SIDE.text, value, where)
    return value


def _positive(value: Any, where: str) -> float:
    found = _finite(value, where)
    if not found > 0:
        raise refusal("a number above 0", value, where)
    return found


def _finite(value: Any, where: str) -> float:
    return _number(value, Range(-math.inf, math.inf, "a finite number"), where)


def _number(value: Any, allowed: Range, where: str) -> float:
    """Read a finite number, or a text that holds one: YAML reads 1e-3 as a text."""
    remedy = "correct it"
    if isinstance(value, list) and "" in value:
        remedy = "a * separates the elements of a list: write the number itself, 65536 for 2**16"
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise refusal(allowed.text, value, where) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refusal(allowed.text, value, where, remedy)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found) or not allowed.holds(found):
        raise refusal(allowed.text, value, where)
    return found


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


Kind = Literal["followed", "without effect", "refused"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclasses.dataclass(frozen=True)
class Support:
    """How a hyper-parameter is supported.

    Attributes:
        kind: whether it is followed, refused or without effect.
        text: the config field that it sets, or the reason.
        fits: returns whether all hyper-parameters together can be followed; otherwise they are refused with
            `remedy`.
        expected: the condition that `fits` checks, in words.
        remedy: what to do instead.
    """

    kind: Kind
    text: str
    fits: Callable[[Any], bool]
    expected: str = ""
    remedy: str = ""


def row(default: Any, read: Reader, *, fits: Callable[[Any], bool] = lambda values: True) -> Any:
    """Declare a hyper-parameter; see `Support.fits`."""
    return dataclasses.field(metadata={"default": default, "read": read, "fits": fits})
