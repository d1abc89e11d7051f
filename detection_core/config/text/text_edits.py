"""Edit single values of a text-format message, and add comments above its fields."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import accumulate

from google.protobuf.descriptor import Descriptor

from detection_core.config.text.positions import field_lines, nearest_line, scan

_MARKS = frozenset("{}<>[]:,;")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Written:
    """A value as written in a text.

    Attributes:
        path: field path from the root message, with an index if the field is repeated.
        line: of the field's name, from 1.
        name_start: offset of the field's name.
        start: offset of the value.
        end: offset behind the value; adjacent strings are one value.
        text: the value as written.
    """

    path: str
    line: int
    name_start: int
    start: int
    end: int
    text: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Edit:
    """A replacement of characters; offsets refer to the unedited text."""

    start: int
    end: int
    text: str


def written_values(text: str, root: Descriptor) -> list[Written]:
    """Return every value that is not a message, in text order; the text need not be valid."""
    line_starts = [0, *accumulate(len(row) + 1 for row in text.split("\n"))]
    found: list[Written] = []
    name_line, name_start = 1, 0
    for token in scan(text, root):
        start = line_starts[token.line - 1] + token.column - 1
        end = start + len(token.text)
        if token.is_name:
            name_line, name_start = token.line, start
        elif token.text not in _MARKS:
            last = found[-1] if found else None
            if last and (last.path, last.name_start) == (token.path, name_start):
                found[-1] = dataclasses.replace(last, end=end, text=text[last.start : end])
                continue
            found.append(
                Written(
                    path=token.path,
                    line=name_line,
                    name_start=name_start,
                    start=start,
                    end=end,
                    text=token.text,
                )
            )
    return found


def replacement(value: Written, new: str) -> Edit:
    """Replace a string by another one, keeping its quotes."""
    quote = value.text[0]
    return Edit(start=value.start, end=value.end, text=f"{quote}{new}{quote}")


def insertion(text: str, root: Descriptor, path: str, field: str) -> Edit | None:
    """Insert a field at the start of a message; None if the message is not written with braces.

    The text need not be valid. `path` is that of the message, `field` a name and value as in "decay: 0".
    """
    line_starts = [0, *accumulate(len(row) + 1 for row in text.split("\n"))]
    named = False
    for token in scan(text, root):
        if named and token.text in ("{", "<"):
            offset = line_starts[token.line - 1] + token.column - 1 + len(token.text)
            return Edit(start=offset, end=offset, text=f" {field}")
        named = (token.is_name and token.path == path) or (named and token.text == ":")
    return None


def removal(text: str, value: Written) -> Edit:
    """Remove a field with its value, and its line if nothing else is on it."""
    behind = re.compile(r"[ \t]*[,;]?").match(text, value.end)
    start, end = value.name_start, behind.end() if behind else value.end
    line_start = text.rfind("\n", 0, start) + 1
    rest = re.compile(r"[ \t\r]*(\n|$)").match(text, end)
    if rest and not text[line_start:start].strip():
        return Edit(start=line_start, end=rest.end(), text="")
    return Edit(start=start, end=end, text="")


def blanked(text: str, edits: Iterable[Edit]) -> str:
    """Replace edited text by spaces; every other character keeps its line and column."""
    for edit in edits:
        old = re.sub(r"[^\r\n]", " ", text[edit.start : edit.end])
        text = text[: edit.start] + old + text[edit.end :]
    return text


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits that do not overlap."""
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


_WIDTH = 110


def with_comments(text: str, root: Descriptor, comments: Mapping[str, str]) -> str:
    """Return text-format text with comments above fields.

    The comment of a field that is not in the text goes above the nearest enclosing message. `root` is the
    text's message type. Comments have one line; long lines are wrapped.
    """
    places = field_lines(text, root)
    above: dict[int, list[str]] = {}
    for path, comment in comments.items():
        line = nearest_line(f"{path}[0]" if f"{path}[0]" in places else path, places)
        above.setdefault(line or 1, []).append(comment)
    lines: list[str] = []
    for number, content in enumerate(text.split("\n"), start=1):
        indent = content[: len(content) - len(content.lstrip())]
        for comment in above.get(number, ()):
            lines += comment_lines(comment, indent)
        lines.append(content)
    return "\n".join(lines)


def comment_lines(comment: str, indent: str = "", width: int = _WIDTH) -> list[str]:
    """Format a comment as lines of a config or settings file; no content can end the comment.

    Control characters become spaces; words longer than `width` characters are not broken.
    """
    plain = "".join(character if character.isprintable() else " " for character in comment)
    prefix = f"{indent}# "
    return textwrap.wrap(
        plain,
        width,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [prefix.rstrip()]
