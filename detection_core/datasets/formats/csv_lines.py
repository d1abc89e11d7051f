"""CSV files as lines of bounded length, so that no file is in memory as a whole."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
from collections.abc import Iterator
from typing import TextIO

from detection_core.datasets.annotated_images import MAX_ANNOTATION_BYTES
from detection_core.errors import DataError
from detection_core.storage import files

MAX_ROW = 1 << 22
"""Characters of a row above which the file is not read on; a field has csv.field_size_limit()."""

_PIECE = 1 << 20


@contextlib.contextmanager
def open_csv(path: str) -> Iterator[TextIO]:
    """Open a CSV file: UTF-8, or UTF-16 with its mark. Lines keep their ends.

    Raises:
        DataError: when it cannot be read; in the block, when what is read of it is in another encoding.
    """
    try:
        with files.open_regular(path, MAX_ANNOTATION_BYTES) as file:
            buffered = io.BufferedReader(file, _PIECE)  # type: ignore[type-var] # as open() gives it
            yield io.TextIOWrapper(buffered, encoding=_encoding(buffered.peek(2)), newline="")
    except UnicodeError as e:
        raise DataError(f"expected CSV in UTF-8, found other text ({e}); save it anew", where=path) from e
    except OSError as e:
        reason = e.strerror or str(e)
        raise DataError(f"expected a CSV file, found one that cannot be read: {reason}", where=path) from e


def decode_head(data: bytes) -> TextIO:
    """Return the beginning of a CSV file as `open_csv` gives the whole of it.

    Raises:
        UnicodeError: when it is in another encoding.
    """
    return io.StringIO(data.decode(_encoding(data)), newline="")


def _encoding(head: bytes) -> str:
    return "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


class CsvLines:
    """The lines of a CSV file, for `csv.reader`.

    Attributes:
        taken: characters since the last row; who reads the rows sets it to 0 at each.
    """

    def __init__(self, text: TextIO, head: str = "") -> None:
        """Take the lines.

        Args:
            text: opened with newline="".
            head: lines that were read of it already.
        """
        self.taken = 0
        self._text = text
        self._read = io.StringIO(head, newline="").readline

    def __iter__(self) -> Iterator[str]:
        """Return the lines."""
        return self

    def __next__(self) -> str:
        """Return the next line.

        Raises:
            csv.Error: for a row without an end.
        """
        line = self._read(MAX_ROW + 1)
        if not line:
            self._read = self._text.readline
            if not (line := self._read(MAX_ROW + 1)):
                raise StopIteration
        self.taken += len(line)
        if self.taken > MAX_ROW:
            raise csv.Error(f"a row of more than {MAX_ROW:,} characters")
        return line
