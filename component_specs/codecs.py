"""Parameters of Jobs: values in Python, texts and numbers in backends, and the codecs between them.

ML Metadata, a command line and Kubeflow Pipelines carry texts, numbers and booleans. Maps, lists and small
dataclasses travel as text inside a string parameter. Kubeflow's own LIST and STRUCT would buy nothing here:
its local runner turns the integers in them into floats, TFX cannot store a map of mixed types, and component
YAMLs and compiled packages in use declare these parameters as STRING.
"""

from __future__ import annotations

import base64
import bz2
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

Scalar = str | int | float | bool
_SHOWN = 300


class ParameterError(ValueError):
    """A parameter that cannot be read.

    Attributes:
        name: of the parameter.
        problem: what was expected and what was found.
    """

    def __init__(self, name: str, problem: str) -> None:
        """Join name and problem for a message."""
        super().__init__(f"{name}: {problem}")
        self.name, self.problem = name, problem


@runtime_checkable
class Codec(Protocol):
    """Encodes and decodes one kind of value for every backend."""

    @property
    def carried_as(self) -> type:
        """The encoded type: str, int, float or bool."""

    @property
    def form(self) -> str:
        """Format of the encoded text, for users who write one; "" for plain values."""

    def encode(self, value: Any) -> Scalar:
        """Return the value as it travels. Equal values give equal texts, as caches compare them."""

    def decode(self, carried: Scalar) -> Any:
        """Return the value; ValueError says what was expected and found."""


@dataclasses.dataclass(frozen=True)
class Plain:
    """A text, number or boolean, which travels as it is.

    Attributes:
        carried_as: str, int, float or bool.
        form: "", as there is nothing to explain.
    """

    carried_as: type
    form: str = dataclasses.field(default="", init=False)

    def encode(self, value: Any) -> Scalar:
        """Return the value as the declared type."""
        encoded: Scalar = self.carried_as(value)
        return encoded

    def decode(self, carried: Scalar) -> Any:
        """Return the value; Kubeflow may give 10.0 for the integer 10, and 1 for the float 1.0."""
        value = carried
        if self.carried_as is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if self.carried_as is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not self.carried_as:
            expected = self.carried_as.__name__
            raise ValueError(f"expected a value of the type {expected}, found {shorten(carried)}")
        return value


class _Text:
    """A value that travels as text."""

    @property
    def carried_as(self) -> type:
        return str

    @property
    def form(self) -> str:
        return ""


@dataclasses.dataclass(frozen=True)
class PackedText(_Text):
    """A long text, which `packed_text` packs where it would fill Argo's Workflow of a run.

    Attributes:
        content: what the text is, for messages.
    """

    content: str

    def encode(self, value: str) -> str:
        """Return the text, packed where it is long."""
        return pack(value)

    def decode(self, carried: Scalar) -> str:
        """Return the text that was packed."""
        try:
            return unpack(str(carried))
        except ValueError as e:
            raise ValueError(f"expected {self.content}, found {e}") from e


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonObject(_Text):
    """A map, as a JSON object.

    Attributes:
        example: what users read in messages; it is a value of the parameter.
        of_objects: whether each value is an object too.
        ordered: whether the order of the keys means something; else they are sorted.
    """

    example: str
    of_objects: bool = False
    ordered: bool = False

    @property
    def form(self) -> str:
        """A JSON object, with the example."""
        return f"a JSON object such as {self.example}"

    def encode(self, value: Mapping[str, Any]) -> str:
        """Return the map as one line of JSON."""
        return json.dumps(value, sort_keys=not self.ordered)

    def decode(self, carried: Scalar) -> dict[str, Any]:
        """Return the map."""
        value = _parse(carried, self.form)
        if not isinstance(value, dict):
            raise _unexpected(self.form, carried)
        if self.of_objects and not all(isinstance(inner, dict) for inner in value.values()):
            raise _unexpected(self.form, carried)
        return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonList(_Text):
    """A tuple of texts, as a JSON list; "" stands for an empty one.

    Attributes:
        example: what users read in messages; it is a value of the parameter.
    """

    example: str

    @property
    def form(self) -> str:
        """A JSON list, with the example."""
        return f"a JSON list of texts such as {self.example}"

    def encode(self, value: tuple[str, ...]) -> str:
        """Return the texts as one line of JSON."""
        return json.dumps(list(value))

    def decode(self, carried: Scalar) -> tuple[str, ...]:
        """Return the texts."""
        value = _parse(carried or "[]", self.form)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise _unexpected(self.form, carried)
        return tuple(value)


@dataclasses.dataclass(frozen=True)
class CommaSeparated(_Text):
    """A tuple of short names, separated by commas."""

    @property
    def form(self) -> str:
        """Names and commas."""
        return "names separated by commas"

    def encode(self, value: tuple[str, ...]) -> str:
        """Return the names in one text."""
        return ",".join(value)

    def decode(self, carried: Scalar) -> tuple[str, ...]:
        """Return the names, without the space around them."""
        return tuple(name.strip() for name in str(carried).split(",") if name.strip())


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonFields(_Text):
    """A dataclass whose fields are tuples of texts, as a JSON object; "" stands for one with all empty.

    Attributes:
        type: the dataclass.
        example: what users read in messages; it is a value of the parameter.
    """

    type: type
    example: str

    @property
    def form(self) -> str:
        """A JSON object, with the example."""
        return f"a JSON object such as {self.example}"

    def encode(self, value: Any) -> str:
        """Return the fields as one line of JSON."""
        return "" if value == self.type() else json.dumps(dataclasses.asdict(value))

    def decode(self, carried: Scalar) -> Any:
        """Return the dataclass."""
        if not carried:
            return self.type()
        value = _parse(carried, self.form)
        names = {field.name for field in dataclasses.fields(self.type)}
        if not isinstance(value, dict) or not value.keys() <= names:
            raise _unexpected(self.form, carried)
        if not all(isinstance(texts, list) for texts in value.values()):
            raise _unexpected(self.form, carried)
        return self.type(**{name: tuple(map(str, texts)) for name, texts in value.items()})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a Job.

    Attributes:
        name: the field.
        codec: between its values and what backends carry.
        default: value of a parameter that is not given; `dataclasses.MISSING` where it must be.
    """

    name: str
    codec: Codec
    default: Any

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is dataclasses.MISSING

    @property
    def carried_as(self) -> type:
        """The encoded type: str, int, float or bool."""
        return self.codec.carried_as

    def encode(self, value: Any) -> Scalar:
        """Return a value as it travels."""
        return self.codec.encode(value)

    def decode(self, carried: Scalar) -> Any:
        """Return the value of what travelled.

        Raises:
            ParameterError: naming the parameter, with an example of what it may be.
        """
        try:
            return self.codec.decode(carried)
        except ValueError as e:
            raise ParameterError(self.name, str(e)) from e


def shorten(value: Any) -> str:
    """Return a value for a message, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def _parse(carried: Scalar, expected: str) -> Any:
    """Read JSON; it may also be nested deeper, or have longer numbers, than Python reads."""
    try:
        return json.loads(str(carried))
    except (ValueError, RecursionError) as e:
        raise ValueError(f"expected {expected}, found {shorten(carried)} ({e})") from e


def _unexpected(expected: str, carried: Scalar) -> ValueError:
    return ValueError(f"expected {expected}, found {shorten(carried)}")


# Shorter texts are not packed, so that they stay readable in packages and runs.
PLAIN_BYTES = 8 * 1024
_MARK = "bz2:"


def pack(text: str) -> str:
    """Return a text that `unpack` turns back; a short one as it is."""
    if len(text.encode()) <= PLAIN_BYTES and not text.startswith(_MARK):
        return text
    return _MARK + base64.b64encode(bz2.compress(text.encode())).decode()


def unpack(text: str) -> str:
    """Return the text that `pack` was given.

    Raises:
        ValueError: for a packed text that is broken.
    """
    if not text.startswith(_MARK):
        return text
    try:
        return bz2.decompress(base64.b64decode(text.removeprefix(_MARK), validate=True)).decode()
    except (ValueError, OSError, EOFError) as e:
        raise ValueError(f"not a packed text ({e})") from e
