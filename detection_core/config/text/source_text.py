"""Position of each field in a text-format message, edits of its values, and comments above its fields.

protobuf's parser gives the line of an error but not its field, and keeps no lines after parsing. The scanner
only follows braces and names; it reads invalid text up to the first fault.
"""

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)
    |(?P<mark>[{}<>\[\]:,;])
    |(?P<word>[^\s{}<>\[\]:,;"'\#]+)""",
    re.VERBOSE,
)
_OPENING, _CLOSING = "{<", "}>"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Token:
    """One token and the field it belongs to.

    Attributes:
        line: from 1.
        column: from 1.
        start: offset in the whole text.
        text: the token as written.
        path: field path from the root message; repeated fields carry an index, as in `a.b[0].c`.
        name: last field name of the path; empty at the root.
        container: message type that should have a field `name`; None inside a field that does not exist.
        is_name: whether the token is the field's name, not its value or a brace.
    """

    line: int
    column: int
    start: int
    text: str
    path: str
    name: str
    container: Descriptor | None
    is_name: bool

    @property
    def field(self) -> FieldDescriptor | None:
        """The field `name` of the container; None if there is no such field."""
        return self.container.fields_by_name.get(self.name) if self.container is not None else None


@dataclasses.dataclass
class _Frame:
    """An open message: its path, its type and the count of each repeated field."""

    path: str
    message: Descriptor | None
    in_list: bool = False
    name: str = ""
    counts: dict[str, int] = dataclasses.field(default_factory=dict)

    def field(self) -> FieldDescriptor | None:
        return self.message.fields_by_name.get(self.name) if self.message is not None else None

    def start_element(self) -> None:
        self.counts[self.name] = self.counts.get(self.name, -1) + 1

    def field_path(self) -> str:
        if not self.name:
            return self.path
        field = self.field()
        path = f"{self.path}.{self.name}".lstrip(".")
        return f"{path}[{self.counts.get(self.name, 0)}]" if field is not None and field.is_repeated else path

    def child(self, *, in_list: bool) -> "_Frame":
        field = self.field()
        return _Frame(self.field_path(), field.message_type if field is not None else None, in_list=in_list)


class _Scanner:
    """Follow the tokens; `state` is the expected next one: a name, a value or a list element."""

    def __init__(self, root: Descriptor | None) -> None:
        self.frames = [_Frame("", root)]
        self.state = "name"

    @property
    def frame(self) -> _Frame:
        return self.frames[-1]

    def take(self, kind: str, text: str) -> bool:
        """Advance by one token; return whether it was a field's name."""
        if text in _CLOSING:
            self._close()
        elif text in _OPENING and self.state != "name":
            self._open()
        elif self.state == "name":
            return self._take_name(kind, text)
        elif self.state == "extension":
            self.frame.name = f"[{self.frame.name}]" if text == "]" else self.frame.name + text
            self.state = "value" if text == "]" else self.state
        else:
            self._take_value(kind, text)
        return False

    def _open(self) -> None:
        in_list = self.state == "list"
        self.frame.start_element()
        self.frames.append(self.frame.child(in_list=in_list))
        self.state = "name"

    def _close(self) -> None:
        in_list = self.frame.in_list
        if len(self.frames) > 1:
            self.frames.pop()
        self.state = "list" if in_list else "name"

    def _take_name(self, kind: str, text: str) -> bool:
        if kind == "word":
            self.frame.name = text
            self.state = "value"
            return True
        if text == "[":
            self.frame.name = ""
            self.state = "extension"
        return False

    def _take_value(self, kind: str, text: str) -> None:
        if self.state == "list":
            if text == "]":
                self.state = "name"
            elif kind != "mark":
                self.frame.start_element()
        elif text == "[":
            self.state = "list"
        elif kind != "mark":
            self.frame.start_element()
            self.state = "name"


def scan(text: str, root: Descriptor | None) -> Iterator[Token]:
    """Yield every token of a text-format message with its field.

    The text need not be valid; its root type defines the repeated fields.
    """
    scanner = _Scanner(root)
    line, line_start, position = 1, 0, 0
    while (match := _TOKEN.match(text, position)) is not None:
        position = match.end()
        kind, written = str(match.lastgroup), match.group()
        if kind != "skip":
            frame = scanner.frame
            is_name = scanner.take(kind, written)
            holder = scanner.frame if is_name else frame
            yield Token(
                line=line,
                column=match.start() - line_start + 1,
                start=match.start(),
                text=written,
                path=_name_path(holder) if is_name else holder.field_path(),
                name=holder.name,
                container=holder.message,
                is_name=is_name,
            )
        if "\n" in written:
            line += written.count("\n")
            line_start = match.start() + written.rindex("\n") + 1


def _name_path(frame: _Frame) -> str:
    """Return the path at a field's name, before its occurrence is counted."""
    counts = dict(frame.counts)
    frame.start_element()
    path = frame.field_path()
    frame.counts = counts
    return path


def field_lines(text: str, root: Descriptor) -> dict[str, int]:
    """Return the first line of each field path of a message."""
    lines: dict[str, int] = {}
    for token in scan(text, root):
        if token.is_name:
            lines.setdefault(token.path, token.line)
    return lines


def nearest_line(path: str, lines: Mapping[str, int]) -> int:
    """Return the line of a field, or of the nearest enclosing message, or 0."""
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path, 0)


def token_at(text: str, root: Descriptor, line: int, column: int) -> Token | None:
    """Return the last token that begins at or before a position, or None."""
    found = None
    for token in scan(text, root):
        if (token.line, token.column) > (line, column):
            break
        found = token
    return found


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
    found: list[Written] = []
    name_line, name_start = 1, 0
    for token in scan(text, root):
        end = token.start + len(token.text)
        if token.is_name:
            name_line, name_start = token.line, token.start
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
                    start=token.start,
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
    named = False
    for token in scan(text, root):
        if named and token.text in ("{", "<"):
            offset = token.start + len(token.text)
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
