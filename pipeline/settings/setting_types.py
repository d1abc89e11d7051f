"""Types of settings, with rules beyond pydantic's."""

import dataclasses
import functools
import math
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import pydantic
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import TypeAliasType

from detection_core.bounded.plain_yaml import module_table
from detection_core.redaction import hide_credentials

MAX_TEXT = 32_768
_WHOLE = 2**63


class Settings(pydantic.BaseModel):
    """A section of the settings: unknown keys are refused, and values are not converted.

    A YAML file beside the section's module describes its keys, by class and name: the text, and perhaps
    `examples`, the `unit`, and the effective value of an `unset` key, if the default does not tell it.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    def __init_subclass__(cls, **options: Any) -> None:
        """Add the descriptions, before pydantic collects the fields."""
        super().__init_subclass__(**options)
        for name, about in _descriptions(cls.__module__).get(cls.__name__, {}).items():
            setattr(cls, name, _described(vars(cls).get(name, ...), about))


@functools.cache
def _descriptions(module: str) -> Mapping[str, Any]:
    file = str(sys.modules[module].__file__)
    return module_table(file) if os.path.exists(f"{os.path.splitext(file)[0]}.yaml") else {}


def _described(given: Any, about: Any) -> Any:
    """Return a field with a description; `given` is its default, a field, or `...` for a required key."""
    about = {"text": about} if isinstance(about, str) else dict(about)
    field: Any = given if isinstance(given, FieldInfo) else FieldInfo(default=given, json_schema_extra={})
    factory = field.default_factory
    options: dict[str, Any] = {"default_factory": factory} if factory else {"default": field.default}
    return pydantic.Field(
        description=about.pop("text"),
        examples=about.pop("examples", None),
        json_schema_extra={f"x-{key}": text for key, text in about.items()} | field.json_schema_extra,
        **options,
    )


def from_factory(default_factory: Callable[[], Any], *, unset: str = "") -> Any:
    """Declare a setting whose default is made for each section; `unset` as in the description."""
    extra: Any = {"x-unset": unset} if unset else {}
    return pydantic.Field(default_factory=default_factory, json_schema_extra=extra)


def rule_error(expected: str, **found: str) -> PydanticCustomError:
    """Return a validator's exception; `found` describes the value in place of the value itself."""
    return PydanticCustomError("rule", "{expected}", {"expected": expected, **found})


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """A rule for a value, in addition to its type.

    Attributes:
        holds: tells whether a value of the right type is valid.
        expected: the rule in words, after 'expected'.
        json_schema: the rule for editors, as far as JSON Schema can express it.
    """

    holds: Callable[[Any], bool]
    expected: str
    json_schema: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def check(self, value: Any) -> Any:
        """Return a valid value. Raises PydanticCustomError for an invalid value."""
        if not self.holds(value):
            raise rule_error(self.expected)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), **self.json_schema}


NOT_EMPTY = Rule(bool, "something", {"minLength": 1, "minItems": 1, "minProperties": 1})
EACH_ONCE = Rule(lambda values: len(set(values)) == len(values), "each once", {"uniqueItems": True})


def between(low: float, high: float) -> Rule:
    """Return the rule that a number lies in a closed interval."""
    return Rule(lambda value: low <= value <= high, f"{low:,} to {high:,}", {"minimum": low, "maximum": high})


def matching(pattern: str, expected: str, *, longest: int = MAX_TEXT) -> Rule:
    """Return the rule that a text fully matches a pattern and is not too long."""
    compiled = re.compile(pattern)
    return Rule(
        lambda text: len(text) <= longest and compiled.fullmatch(text) is not None,
        expected,
        {"pattern": f"^({pattern})$", "maxLength": longest},
    )


def one_of(*choices: str) -> Rule:
    """Return the rule that a text is one of the given ones."""
    return Rule(
        lambda text: text in choices, f"one of {', '.join(filter(None, choices))}", {"enum": list(choices)}
    )


def _check_text(value: str, kept: str = "") -> str:
    """Refuse a text that is too long or has control characters other than the permitted ones."""
    if len(value) > MAX_TEXT:
        raise rule_error(f"a text of at most {MAX_TEXT:,} characters", found=f"{len(value):,}")
    # Control characters and lone surrogates.
    if any(c not in kept and unicodedata.category(c) in ("Cc", "Cs") for c in value):
        raise rule_error("a text without control characters")
    return value


@dataclasses.dataclass(frozen=True)
class IsPath:
    """Mark a text, or a list of texts, as a path; relative paths start at the file's folder.

    Attributes:
        words: texts that are not paths.
        prefixes: prefixes of texts that are not paths.
    """

    words: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()

    def is_path(self, text: str) -> bool:
        """Tell whether a text is a path, and not one of the field's special words."""
        return text not in self.words and not text.startswith(self.prefixes)


class _Unquoted:
    """Accepts a number, such as YAML's 3, where a text is expected."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(_as_text, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "type": ["string", "number"]}


def _as_text(value: Any) -> Any:
    number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _WHOLE
    return str(value) if number or isinstance(value, float) else value


def is_unquoted_text(field: FieldInfo) -> bool:
    """Tell whether a field of texts accepts a number."""
    return any(isinstance(mark, _Unquoted) for mark in field.metadata)


GIVEN_ONLY = pydantic.PlainSerializer(lambda section: section.model_dump(exclude_unset=True))
"""Serializes only the given keys of a section, where the others have other defaults than its own."""
Text = Annotated[str, pydantic.AfterValidator(_check_text)]
MultilineText = Annotated[str, pydantic.AfterValidator(lambda text: _check_text(text, "\n\t"))]
UnquotedText = Annotated[Text, _Unquoted()]
Path = Annotated[Text, IsPath()]
Paths = Annotated[list[Text], IsPath()]
_64_BITS = Rule(lambda value: -_WHOLE <= value < _WHOLE, "a whole number of at most 64 bits")
_FINITE = Rule(math.isfinite, "a finite number")
Whole = Annotated[int, _64_BITS]

# Tags of the arms of a union, which pydantic adds to an error's path; they cannot be keys.
KIND_MARK = "\0"
FLAG, NUMBER, TEXT, MAPPING, LIST, NOTHING = (
    pydantic.Tag(KIND_MARK + kind) for kind in ("flag", "number", "text", "mapping", "list", "nothing")
)
_KINDS: dict[type, str] = {
    bool: FLAG.tag,
    int: NUMBER.tag,
    float: NUMBER.tag,
    str: TEXT.tag,
    dict: MAPPING.tag,
    list: LIST.tag,
    type(None): NOTHING.tag,
}


def by_kind(expected: str) -> pydantic.Discriminator:
    """Return a discriminator of a union: the kind of a value, as YAML writes it.

    `expected` names the kinds, for a value of another kind.
    """

    def kind(value: Any) -> str | None:
        return _KINDS.get(type(value))

    return pydantic.Discriminator(
        kind, custom_error_type="rule", custom_error_message="", custom_error_context={"expected": expected}
    )


def addresses_with_credentials(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield key and message of each address with credentials in a value, which records would show."""
    if isinstance(value, str) and hide_credentials(value):
        yield (
            key,
            "expected an address without credentials, found some, which records of the run would show;"
            " remove them, and use the environment",
        )
    elif isinstance(value, dict):
        for name, below in value.items():
            yield from addresses_with_credentials(below, f"{key}.{name}".removeprefix("."))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from addresses_with_credentials(below, f"{key}[{number}]")


if TYPE_CHECKING:
    Plain: TypeAlias = Any
else:
    Plain = TypeAliasType(
        "Plain",
        Annotated[
            Annotated[None, NOTHING]
            | Annotated[bool, FLAG]
            | Annotated[
                Any,
                pydantic.AfterValidator(lambda n: (_64_BITS if isinstance(n, int) else _FINITE).check(n)),
                NUMBER,
            ]
            | Annotated[MultilineText, TEXT]
            | Annotated[list["Plain"], LIST]
            | Annotated[dict[Text, "Plain"], MAPPING],
            by_kind("a number, a text, true or false, a list or a mapping"),
            pydantic.WithJsonSchema({}),
        ],
    )
    # Any plain YAML value.
