"""Parse and format text-format messages; errors name line, field and remedy."""

import re
from collections.abc import Callable
from typing import TypeVar, cast

from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from detection_core.config.suggestions import describe_expected, describe_unknown_field, describe_wrong_value
from detection_core.config.text.source_text import Token, token_at
from detection_core.errors import ConfigError, one_line, shorten

M = TypeVar("M", bound=Message)

BACKSLASHES = r"a backslash begins an escape here: write / or \\ instead"
"""Advice about a Windows path."""


def parse_message(text: str, message_type: type[M], *, where: str = "") -> M:
    """Parse a text-format message; ConfigError names line and field path of the first misfit."""
    message = message_type()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise _translate(error, text, message, where) from error
    except ValueError as error:  # a string whose escapes are not UTF-8
        raise ConfigError(f"not a valid {message_type.DESCRIPTOR.name}: {error}", where=where) from error
    return message


def format_message(message: Message, *, one_line: bool = False) -> str:
    """Return text that parses to an equal message, with fields in schema order; optionally in one line."""
    return text_format.MessageToString(message, as_one_line=one_line)


def line_of(where: str, line: int) -> str:
    """Return `file:line`, or `line N` if the text came from no file."""
    return f"{where}:{line}" if where else f"line {line}"


def _translate(error: text_format.ParseError, text: str, message: Message, where: str) -> ConfigError:
    line, column = error.GetLine() or 1, error.GetColumn() or 1
    raw = _bare_message(str(error), text, line, column)
    token = token_at(text, cast(Descriptor, message.DESCRIPTOR), line, column)
    if token is None:
        return ConfigError(raw, where=line_of(where, line))
    reason = next((describe for pattern, describe in _REASONS if re.search(pattern, raw)), _syntax)
    path = f"{token.path}: " if token.path else ""
    return ConfigError(path + reason(token, raw), where=line_of(where, line))


def _bare_message(raw: str, text: str, line: int, column: int) -> str:
    """Remove the position and the quoted line that precede protobuf's message."""
    rows = text.split("\n")
    bare = raw.removeprefix(f"{line}:{column} : ")
    return bare.removeprefix(f"'{rows[line - 1]}': ") if line <= len(rows) else bare


def _unknown_field(token: Token, raw: str) -> str:
    if token.container is None or token.field is not None:
        return raw
    return describe_unknown_field(token.name, token.container)


def _second_arm(token: Token, raw: str) -> str:
    both = re.match(r'Field "(\w+)" is specified along with field "(\w+)"', raw)
    if both is None:
        return raw
    return f"'{both[1]}' and '{both[2]}' exclude each other; keep one of the two"


def _wrong_shape(token: Token, raw: str) -> str:
    if token.field is None or token.is_name:
        return _syntax(token, raw)
    return f"expected {describe_expected(token.field)}, found {one_line(token.text)}"


def _syntax(token: Token, raw: str) -> str:
    return f"{raw.rstrip('.')} near {shorten(token.text)}; check braces, quotes and colons before it"


# protobuf's message, and a clearer one that uses the schema; the first match counts.
_REASONS: tuple[tuple[str, Callable[[Token, str], str]], ...] = (
    ("has no field named", _unknown_field),
    (
        "not registered",
        lambda token, raw: (
            "no extension of this name is known here; remove it, or rename it to a field of the message"
        ),
    ),
    (
        "should not have multiple",
        lambda token, raw: f"'{token.name}' is given twice, but takes one value; keep one of the two",
    ),
    ("specified along with field", _second_arm),
    (
        "codec can't decode",
        lambda token, raw: (
            f"expected a text, found {one_line(token.text)}, which cannot be read; {BACKSLASHES}"
        ),
    ),
    (
        'Couldn\'t parse|out of range|has no value|Expected string but|Expected "true"',
        lambda token, raw: describe_wrong_value(token.field, token.text) if token.field else raw,
    ),
    ('^Expected "[{:]"', _wrong_shape),
)
