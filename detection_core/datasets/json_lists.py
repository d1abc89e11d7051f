"""Read the lists of a large JSON object element by element, in bounded memory.

Python's own parser reads a window of the text: first all complete objects at once, then the rest one by one.
A window may end inside an element or a number. That element is parsed again with a longer window.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Iterator
from typing import IO, Any

from detection_core.bounded.plain_json import check_values
from detection_core.datasets.annotated_images import MAX_ANNOTATION_BYTES
from detection_core.errors import DataError
from detection_core.storage import files

PIECE = 1 << 22
"""Bytes that are read at a time."""

MAX_ELEMENT = 1 << 26
"""Characters of one element above which it is not read: the run lengths of the largest image, as text."""

_SPACE = re.compile(r"[ \t\n\r]*")
_KEY = re.compile(r'[ \t\n\r]*("(?:[^"\\]++|\\.)*+")[ \t\n\r]*:[ \t\n\r]*(?=[^ \t\n\r])', re.DOTALL)
_NEXT = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*(?=[^ \t\n\r])")
_OBJECT = re.compile(r"[ \t\n\r]*\{")
_LAST = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*")
_MOST_FOUND = 50_000
_NEAR_END = 16
"""Characters from the end of a window in which what looks wrong may only be cut off."""


OUTERMOST = ""
"""Name of the list that a file is, which holds no object around it."""


class JsonLists:
    """The elements of some lists in a JSON file's outermost object, or of the list that the file is.

    Attributes:
        found: names of the lists that have begun so far.
    """

    def __init__(self, path: str, names: Collection[str]) -> None:
        """Choose the lists.

        Args:
            path: of the file, local or remote.
            names: of the lists; other members of the object are passed over. `OUTERMOST` for a file's own.
        """
        self.found: set[str] = set()
        self._path, self._names = path, names

    def __iter__(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield name of the list and its next elements, in the order of the file.

        Raises:
            DataError: when the file cannot be read, is no JSON, or holds an element that is too large.
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

    def _members(self, window: _Window) -> Iterator[tuple[str, list[Any]]]:
        if window.skip_space() == "[" and OUTERMOST in self._names:
            yield from self._list(OUTERMOST, window)
        elif window.skip_space() != "{":
            window.value()  # text that is no JSON at all is said to be that; another value has no lists
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

    def _list(self, name: str, window: _Window) -> Iterator[tuple[str, list[Any]]]:
        self.found.update({name} & set(self._names))
        for elements in window.elements():
            if name in self._names:
                yield name, elements


class _Window:
    """A part of a text, and the place in it up to which it has been read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        first = file.read(PIECE)
        # As json.loads does: UTF-8, or what the first bytes tell.
        encoding = "utf-8-sig" if first.startswith(codecs.BOM_UTF8) else json.detect_encoding(first[:4])
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
        self._parse = json.JSONDecoder().raw_decode
        self._before, self._ended = 0, not first
        self.text, self.at = self._decoder.decode(first, final=not first), 0

    @property
    def position(self) -> int:
        """Place in the whole text, in characters."""
        return self._before + self.at

    def skip_space(self) -> str:
        """Go on to the next character that is no space, and return it; "" at the end."""
        while True:
            self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr] # matches anything
            if self.at < len(self.text) or not self._more():
                return self.text[self.at : self.at + 1]

    def key(self) -> str:
        """Return the name of an object's next member, and go on to its value."""
        while not (match := _KEY.match(self.text, self.at)):
            if not self._more():
                raise ValueError(f"expected a name in quotes at character {self.position}")
        self.at = match.end()
        return str(json.loads(match[1]))

    def value(self) -> Any:
        """Return the next value, and go on to what follows it."""
        while True:
            try:
                value, end = self._parse(self.text, self.at)
            except json.JSONDecodeError as e:
                if not self._cut_off(len(self.text) if e.msg.startswith("Unterminated string") else e.pos):
                    raise ValueError(f"{e.msg} at character {self._before + e.pos}") from e
            else:
                # What ends with the window, or before a point in it, may be half a number.
                if end < len(self.text) - _NEAR_END or not self._more():
                    self.at = end
                    return value

    def elements(self) -> Iterator[list[Any]]:
        """Yield the elements of the list that begins here, those of a window at a time."""
        self.at += 1
        more, nested = self.skip_space() != "]", False
        self.at += not more
        while more:
            found: list[Any] = []
            if not nested and (end := self._end_of_objects()) > self.at:
                try:
                    found, length = self._parse(f"[{self.text[self.at : end]}]")
                except ValueError:
                    nested = True  # or wrong; read one by one, both are found out
                else:
                    # Past the last of them, with which the list itself may have ended.
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
        """Return where an object of the next piece ends that another follows, likely the last; else -1."""
        end = min(len(self.text), self.at + PIECE)
        while (end := self.text.rfind("},", self.at, end)) >= 0:
            if _OBJECT.match(self.text, end + 2):
                return end + 1
        return -1

    def separator(self, closing: str) -> bool:
        """Go past what follows an element, and tell whether it is a comma, not the list's or object's end."""
        while not (match := _NEXT.match(self.text, self.at)):
            if not self._more():
                match = _LAST.match(self.text, self.at)
                break
        if not match or match[1] not in (",", closing):
            raise ValueError(f"expected ',' or {closing!r} at character {self.position}")
        self.at = match.end()
        return match[1] == ","

    def _cut_off(self, place: int) -> bool:
        """Read on where the window's end may be all that is wrong, and tell whether there was more."""
        return place >= len(self.text) - _NEAR_END and self._more()

    def _more(self) -> bool:
        """Put the next piece behind what has not been read yet; tell whether there is one."""
        if self._ended:
            return False
        rest = self.text[self.at :]
        if len(rest) > MAX_ELEMENT:
            raise ValueError(
                f"an element of more than {MAX_ELEMENT:,} characters at character {self.position}"
            )
        if len(rest) >= PIECE:
            check_values(rest)
        # As much again as there is: an element of many pieces is not parsed once for each.
        data = self._file.read(max(PIECE, len(rest)))
        self._ended = not data
        self._before += self.at
        self.text, self.at = rest + self._decoder.decode(data, final=self._ended), 0
        return True
