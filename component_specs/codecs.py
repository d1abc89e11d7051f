"""Codecs between a Job's parameters in Python and their texts and numbers on the backends.

ML Metadata, a command line and Kubeflow Pipelines carry texts, numbers and booleans. Maps, lists and small
dataclasses are encoded in a string parameter. Kubeflow's LIST and STRUCT are not used. Its local runner turns
their integers into floats, and TFX cannot store a map of mixed types. Existing component YAMLs and compiled
packages also declare these parameters as STRING.
"""

import base64
import bz2
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar

Scalar = str | int | float | bool
_SHOWN = 300
# Shorter texts stay readable in packages and runs.
PLAIN_BYTES = 8 * 1024
_MARK = "bz2:"


class Codec:
    """Encodes and decodes one type of value for every backend.

    Attributes:
        carried_as: the encoded type: str, int, float or bool.
    """

    carried_as: type = str

    @property
    def form(self) -> str:
        """Format of the encoded text, for users who write one; "" for plain values."""
        return ""

    def encode(self, value: Any) -> Scalar:
        """Return the encoded value. Equal values give equal texts, because caches compare them."""
        raise NotImplementedError

    def decode(self, carried: Scalar) -> Any:
        """Return the decoded value; a ValueError says what was expected and found."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Plain(Codec):
    """A text, number or boolean, passed unchanged."""

    carried_as: type

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


@dataclasses.dataclass(frozen=True)
class PackedText(Codec):
    """A text that is compressed when it is long, to keep Argo's Workflow small.

    Attributes:
        content: description of the text, for messages.
    """

    content: str

    def encode(self, value: str) -> str:
        """Return the text, compressed if it is long."""
        if len(value.encode()) <= PLAIN_BYTES and not value.startswith(_MARK):
            return value
        return _MARK + base64.b64encode(bz2.compress(value.encode())).decode()

    def decode(self, carried: Scalar) -> str:
        """Return the decompressed text."""
        text = str(carried)
        if not text.startswith(_MARK):
            return text
        try:
            return bz2.decompress(base64.b64decode(text.removeprefix(_MARK), validate=True)).decode()
        except (ValueError, OSError, EOFError) as e:
            raise ValueError(f"expected {self.content}, found not a packed text ({e})") from e


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Json(Codec):
    """A value as one line of JSON.

    Attributes:
        example: a valid value, shown in messages.
    """

    example: str
    _kind: ClassVar[str] = "a JSON object"

    @property
    def form(self) -> str:
        """The kind of JSON, with the example."""
        return f"{self._kind} such as {self.example}"

    def _parse(self, carried: Scalar) -> Any:
        """Parse JSON; a ValueError also covers too deep nesting and too long numbers."""
        try:
            return json.loads(str(carried))
        except (ValueError, RecursionError) as e:
            raise ValueError(f"expected {self.form}, found {shorten(carried)} ({e})") from e

    def _require(self, fits: bool, carried: Scalar) -> None:
        if not fits:
            raise ValueError(f"expected {self.form}, found {shorten(carried)}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonObject(_Json):
    """A map, as a JSON object.

    Attributes:
        of_objects: whether each value is an object too.
        ordered: whether the order of the keys matters; otherwise they are sorted.
    """

    of_objects: bool = False
    ordered: bool = False

    def encode(self, value: Mapping[str, Any]) -> str:
        """Return the map as one line of JSON."""
        return json.dumps(value, sort_keys=not self.ordered)

    def decode(self, carried: Scalar) -> dict[str, Any]:
        """Return the map."""
        value = self._parse(carried)
        self._require(isinstance(value, dict), carried)
        self._require(not self.of_objects or all(isinstance(v, dict) for v in value.values()), carried)
        return dict(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonList(_Json):
    """A tuple of texts, as a JSON list; "" stands for an empty one."""

    _kind: ClassVar[str] = "a JSON list of texts"

    def encode(self, value: tuple[str, ...]) -> str:
        """Return the texts as one line of JSON."""
        return json.dumps(list(value))

    def decode(self, carried: Scalar) -> tuple[str, ...]:
        """Return the texts."""
        value = self._parse(carried or "[]")
        self._require(isinstance(value, list) and all(isinstance(text, str) for text in value), carried)
        return tuple(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonFields(_Json):
    """A dataclass whose fields are tuples of texts, as a JSON object; "" if all are empty."""

    type: type

    def encode(self, value: Any) -> str:
        """Return the fields as one line of JSON."""
        return "" if value == self.type() else json.dumps(dataclasses.asdict(value))

    def decode(self, carried: Scalar) -> Any:
        """Return the dataclass."""
        if not carried:
            return self.type()
        value = self._parse(carried)
        names = {field.name for field in dataclasses.fields(self.type)}
        self._require(isinstance(value, dict) and value.keys() <= names, carried)
        self._require(all(isinstance(texts, list) for texts in value.values()), carried)
        return self.type(**{name: tuple(map(str, texts)) for name, texts in value.items()})


@dataclasses.dataclass(frozen=True)
class CommaSeparated(Codec):
    """A tuple of short names, separated by commas."""

    @property
    def form(self) -> str:
        """Comma-separated names."""
        return "names separated by commas"

    def encode(self, value: tuple[str, ...]) -> str:
        """Return the names joined by commas."""
        return ",".join(value)

    def decode(self, carried: Scalar) -> tuple[str, ...]:
        """Return the names, stripped."""
        return tuple(name.strip() for name in str(carried).split(",") if name.strip())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a Job.

    Attributes:
        codec: encodes and decodes its values.
        default: default value; `dataclasses.MISSING` for a required parameter.
    """

    codec: Codec
    default: Any

    @property
    def required(self) -> bool:
        """Whether the parameter is required."""
        return self.default is dataclasses.MISSING


def shorten(value: Any) -> str:
    """Return a value for a message, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
