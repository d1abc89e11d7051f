"""Read the lists of a large JSON object element by element, in bounded memory.

Python's json parser reads a window of the text: first all complete objects at once, then the rest one by one.
A window may end inside an element or a number. That element is parsed again with a longer window.
"""

import codecs
import json
import re
from collections.abc import Collection, Iterator
from typing import IO, Any

from detection_core.bounded.limits import check_values
from detection_core.datasets.annotated_images import MAX_ANNOTATION_BYTES
from detection_core.errors import DataError
from detection_core.storage import files

PIECE = 1 << 22
"""Bytes per read."""

MAX_ELEMENT = 1 << 26
"""Maximum length of an element in characters: the run lengths of the largest image, as text."""

_SPACE = re.compile(r"[ \t\n\r]*")
_KEY = re.compile(r'[ \t\n\r]*("(?:[^"\\]++|\\.)*+")[ \t\n\r]*:[ \t\n\r]*(?=[^ \t\n\r])', re.DOTALL)
_NEXT = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*(?=[^ \t\n\r])")
_OBJECT = re.compile(r"[ \t\n\r]*\{")
_LAST = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*")
_MOST_FOUND = 50_000
_NEAR_END = 16
"""A parse error this many characters before a window's end may be due to the window's end."""


OUTERMOST = ""
"""Name of the file's own list, if no object contains it."""


class JsonLists:
    """The elements of some lists in a JSON file's outermost object, or of the file's own list.

    Attributes:
        found: names of the lists that have begun so far.
    """

    def __init__(self, path: str, names: Collection[str]) -> None:
        """Choose the lists; other members are skipped. `OUTERMOST` is the file's own list."""
        self.found: set[str] = set()
        self._path, self._names = path, names

    def __iter__(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield the list's name and its next elements, in the order of the file.

        Raises:
            DataError: if the file is unreadable or no JSON, or an element is too large.
        """
        try:
            with files.open_regular(self._path, MAX_ANNOTATION_BYTES) as file:
                yield from self._members(_Window(file))
        except OSError as e:
            raise DataError(
                f"expected a JSON file, found one that cannot be read: {e.strerror}", where=self._path
            ) from e
        except (ValueError, RecursionError) as e:
            raise DataError(f"expected JSON, found text that cannot be parsed: {e}", where=self._path) from e

    def _members(self, window: "_Window") -> Iterator[tuple[str, list[Any]]]:
        if window.skip_space() == "[" and OUTERMOST in self._names:
            yield from self._list(OUTERMOST, window)
        elif window.skip_space() != "{":
            window.value()  # raises for text that is not JSON; another value has no lists
        else:
            window.at += 1
            more = window.skip_space() != "}"
            window.at += not more
            given: set[str] = set()
            while more:
                name = window.key()
                if name in given and name in self._names:
                    raise ValueError(f"{name!r} is given twice")
                given.add(name)
                if window.skip_space() == "[":
                    yield from self._list(name, window)
                else:
                    window.value()
                more = window.separator("}")
        if window.skip_space():
            raise ValueError(f"extra data at character {window.position}")

    def _list(self, name: str, window: "_Window") -> Iterator[tuple[str, list[Any]]]:
        self.found.update({name} & set(self._names))
        for elements in window.elements():
            if name in self._names:
                yield name, elements


class _Window:
    """A part of a text, and the current position in it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        first = file.read(PIECE)
        # Detect the encoding as json.loads does: UTF-8, or from the first bytes.
        encoding = "utf-8-sig" if first.startswith(codecs.BOM_UTF8) else json.detect_encoding(first[:4])
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
        self._parse = json.JSONDecoder().raw_decode
        self._before, self._ended = 0, not first
        self.text, self.at = self._decoder.decode(first, final=not first), 0

    @property
    def position(self) -> int:
        """Position in the whole text, in characters."""
        return self._before + self.at

    def skip_space(self) -> str:
        """Advance to the next character that is no whitespace and return it; "" at the end."""
        while True:
            self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr] # matches anything
            if self.at < len(self.text) or not self._more():
                return self.text[self.at : self.at + 1]

    def key(self) -> str:
        """Return the name of an object's next member and advance to its value."""
        while not (match := _KEY.match(self.text, self.at)):
            if not self._more():
                raise ValueError(f"expected a name in quotes at character {self.position}")
        self.at = match.end()
        return str(json.loads(match[1]))

    def value(self) -> Any:
        """Return the next value and advance past it."""
        while True:
            try:
                value, end = self._parse(self.text, self.at)
            except json.JSONDecodeError as e:
                place = len(self.text) if e.msg.startswith("Unterminated string") else e.pos
                # The window's end may have caused the error: read on.
                if place < len(self.text) - _NEAR_END or not self._more():
                    raise ValueError(f"{e.msg} at character {self._before + e.pos}") from e
            else:
                # A number at the window's end, or before a point there, may be incomplete.
                if end < len(self.text) - _NEAR_END or not self._more():
                    self.at = end
                    return value

    def elements(self) -> Iterator[list[Any]]:
        """Yield the elements of the list that begins here, one window at a time."""
        self.at += 1
        more, nested = self.skip_space() != "]", False
        self.at += not more
        while more:
            found: list[Any] = []
            if not nested and (end := self._end_of_objects()) > self.at:
                try:
                    found, length = self._parse(f"[{self.text[self.at : end]}]")
                except ValueError:
                    nested = True  # nested or malformed; reading one by one handles both
                else:
                    # Advance past the last one, which may also end the list.
                    self.at += length - 2
                    more = self.separator("]")
                    yield found
                    continue
            begun = self._before
            while more and begun == self._before and len(found) < _MOST_FOUND:
                found.append(self.value())
                more = self.separator("]")
            yield found

    def _end_of_objects(self) -> int:
        """Return the end of an object that another one follows, probably the last in reach; else -1."""
        end = min(len(self.text), self.at + PIECE)
        while (end := self.text.rfind("},", self.at, end)) >= 0:
            if _OBJECT.match(self.text, end + 2):
                return end + 1
        return -1

    def separator(self, closing: str) -> bool:
        """Advance past the separator; return whether it is a comma, not the end of the list or object."""
        while not (match := _NEXT.match(self.text, self.at)):
            if not self._more():
                match = _LAST.match(self.text, self.at)
                break
        if not match or match[1] not in (",", closing):
            raise ValueError(f"expected ',' or {closing!r} at character {self.position}")
        self.at = match.end()
        return match[1] == ","

    def _more(self) -> bool:
        """Append the next piece to the unread text; return whether there is one."""
        if self._ended:
            return False
        rest = self.text[self.at :]
        if len(rest) > MAX_ELEMENT:
            raise ValueError(
                f"an element of more than {MAX_ELEMENT:,} characters at character {self.position}"
            )
        if len(rest) >= PIECE:
            check_values(rest)
        # Double the window, so that a long element is not parsed once per piece.
        data = self._file.read(max(PIECE, len(rest)))
        self._ended = not data
        self._before += self.at
        self.text, self.at = rest + self._decoder.decode(data, final=self._ended), 0
        return True
