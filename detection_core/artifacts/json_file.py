"""JSON files with a name, a dataclass and a version, exchanged between steps and read by people."""

import dataclasses
import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, cast

from detection_core.artifacts.json_values import JsonFault, decode, encode
from detection_core.errors import ContractError, is_exhausted
from detection_core.storage import files

_logger = logging.getLogger(__name__)

T = TypeVar("T")

VERSION_KEY = "schema_version"
FIRST_VERSION = 1
"""Version of files without a version field, which predate it."""
_MOST_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Named(Generic[T]):
    """A file of an artifact.

    Attributes:
        name: of the file in its artifact's folder; a pattern if names vary.
        content: dataclass of the object, or of each line.
        writer: program that writes it, for errors.
        remedy: what to do if it cannot be used, for errors.
    """

    name: str
    content: type[T]
    writer: str
    remedy: str

    def path(self, folder: str) -> str:
        """Return the file's path."""
        return files.join(folder, self.name)

    def _refusal(self, found: str, where: str) -> ContractError:
        return ContractError(
            f"expected the JSON that {self.writer} writes, found {found}; {self.remedy}", where=where
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonFile(_Named[T]):
    """A JSON file of one object.

    Attributes:
        version: version of the layout; increased when an older reader would misread new files.
        version_key: key of the version in the file.
        indent: indent of the text; None writes one line.
        sort_keys: write keys in alphabetical order.
        allow_nan: write NaN and infinity, for diverged values; JavaScript's JSON lacks them.
    """

    version: int = FIRST_VERSION
    version_key: str = VERSION_KEY
    indent: int | None = 1
    sort_keys: bool = False
    allow_nan: bool = False

    def encode(self, value: T) -> dict[str, Any]:
        """Return the file's content for `json.dumps`."""
        return {**encode(value), self.version_key: self.version}

    def format(self, value: T) -> str:
        """Return the file's text."""
        text = json.dumps(
            self.encode(value), indent=self.indent, sort_keys=self.sort_keys, allow_nan=self.allow_nan
        )
        return f"{text}\n"

    def parse(self, text: str | bytes, where: str) -> T:
        """Read the file's text, or its bytes.

        Raises:
            ContractError: when it is another kind of file, damaged, or of a newer version.
        """
        try:
            value = json.loads(text)
            if isinstance(value, dict):
                self._check_version(value, where)
            return cast(T, decode(self.content, value))
        except (JsonFault, ValueError, RecursionError) as error:
            raise self._refusal(f"something else ({error})", where) from error

    def _check_version(self, value: dict[str, Any], where: str) -> None:
        version = value.get(self.version_key, FIRST_VERSION)
        if not isinstance(version, int) or isinstance(version, bool):
            raise JsonFault(f"expected a whole number as {self.version_key}, found {version!r:.80}")
        if version > self.version:
            raise ContractError(
                f"expected {self.version_key} {self.version} or less, found {version}: a newer detflow has"
                " written this; read it with that or a later version",
                where=where,
            )

    def write(self, folder: str, value: T) -> None:
        """Write the file into an artifact's folder, atomically."""
        files.write_text(self.path(folder), self.format(value))

    def find(self, folder: str) -> T | None:
        """Read the file of an artifact's folder; return None if missing. Errors are those of `parse`."""
        try:
            return self.read_file(self.path(folder)) if folder else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_file(self, path: str) -> T:
        """Read a file by its path; errors are those of `parse`, and OSError if there is none."""
        try:
            text = files.read_regular(path, _MOST_BYTES).decode()  # reading a pipe would block forever
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError) or is_exhausted(error):
                raise
            raise self._refusal(f"what cannot be read ({error})", path) from error
        return self.parse(text, path)

    def find_usable(self, folder: str) -> T | None:
        """Read the file of an artifact's folder; return None, with a warning, if it is missing or damaged."""
        try:
            return self.find(folder)
        except ContractError as error:
            _logger.warning("a file is left out: %s", error)
            return None

    def read(self, folder: str) -> T:
        """Read the file of an artifact's folder; ContractError when it is missing, or as `parse`."""
        found = self.find(folder)
        if found is None:
            raise self._refusal("no file", self.path(folder))
        return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonLines(_Named[T]):
    """A file with one JSON object per line. A line without a version has version 1."""

    def format_line(self, value: T) -> str:
        """Return the text of a line, including its newline."""
        return json.dumps(encode(value)) + "\n"

    def format(self, values: Iterable[T]) -> str:
        """Return the file's text."""
        return "".join(map(self.format_line, values))

    def write(self, folder: str, values: Iterable[T]) -> None:
        """Write the file into an artifact's folder, atomically."""
        files.write_text(self.path(folder), self.format(values))

    def as_table(self, folder: str) -> dict[str, str]:
        """Return the file of a folder as its name and text; empty if it is missing or empty."""
        path = self.path(folder)
        text = files.read_text(path) if files.exists(path) else ""
        return {self.name: text} if text else {}

    def parse_line(self, text: str | bytes, where: str) -> T:
        """Read a line; errors as in `JsonFile.parse`."""
        line = JsonFile(name=self.name, content=self.content, writer=self.writer, remedy=self.remedy)
        return line.parse(text, where)

    def read(self, folder: str) -> list[T]:
        """Read the file of an artifact's folder; a missing file is empty.

        Errors are those of `JsonFile.parse`, and name the line.
        """
        return [self.parse_line(line, where) for line, where in self._lines(folder)]

    def read_whole_lines(self, folder: str) -> list[T]:
        """Read the valid lines for a report; skip the others with a warning.

        Skipped are incomplete lines of a killed writer, lines that are not text, and lines of a newer
        version. Use `read` before writing the file again: it refuses these lines, so that none is lost.
        """
        found = []
        try:
            lines = list(self._lines(folder))
        except OSError as error:
            _logger.warning("%s is left out: %s", self.path(folder), error)
            return []
        for line, where in lines:
            try:
                found.append(self.parse_line(line, where))
            except ContractError as error:
                _logger.warning("a line is left out: %s", error)
        return found

    def _lines(self, folder: str) -> Iterator[tuple[bytes, str]]:
        """Yield each line undecoded with its position, so that an invalid line affects no other."""
        path = self.path(folder)
        content = files.read_regular(path, _MOST_BYTES) if folder and files.exists(path) else b""
        for number, line in enumerate(content.splitlines(), start=1):
            yield line, f"{path}:{number}"
