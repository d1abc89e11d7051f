"""Rows of CSV files of boxes with any known columns.

Files with a header have the columns of the Object Detection API's tutorials: filename, width, height, class,
xmin, ymin, xmax, ymax. They may come in any order and under other tools' names. Files without a header have
the columns of keras-retinanet (path, x1, y1, x2, y2, class) or of Google Cloud's importers. The latter are
set, path, label and up to four corners in fractions of the image, see
https://docs.cloud.google.com/vertex-ai/docs/image-data/object-detection/prepare-data.
"""

import codecs
import contextlib
import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TextIO

from detection_core.bounded.plain_yaml import module_table
from detection_core.datasets.annotated_images import MAX_ANNOTATION_BYTES, Box, Malformed, Rejected
from detection_core.datasets.layouts import is_image
from detection_core.errors import DataError
from detection_core.storage import files

MAX_ROW = 1 << 22
"""Maximum characters of a row; a field is limited by csv.field_size_limit()."""

_PIECE = 1 << 20


@contextlib.contextmanager
def open_csv(path: str) -> Iterator[TextIO]:
    """Open a CSV file in UTF-8, or in UTF-16 with a byte order mark. Line ends are kept.

    Raises:
        DataError: if it cannot be read; inside the block also for another encoding.
    """
    try:
        with files.open_regular(path, MAX_ANNOTATION_BYTES) as file:
            buffered = io.BufferedReader(file, _PIECE)  # type: ignore[type-var] # as open() gives it
            yield io.TextIOWrapper(buffered, encoding=_encoding(buffered.peek(2)), newline="")
    except UnicodeError as e:
        raise DataError(f"expected CSV in UTF-8, found other text ({e}); save it again", where=path) from e
    except OSError as e:
        reason = e.strerror or str(e)
        raise DataError(f"expected a CSV file, found one that cannot be read: {reason}", where=path) from e


def decode_head(data: bytes) -> TextIO:
    """Decode the beginning of a CSV file as `open_csv` does; UnicodeError for another encoding."""
    return io.StringIO(data.decode(_encoding(data)), newline="")


def _encoding(head: bytes) -> str:
    return "utf-16" if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def split_rows(
    text: TextIO, where: str, head: str = "", *, delimiter: str = ",", quotechar: str = '"'
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line and the cells of each row, after the rows of `head`.

    `text` was opened with newline="".

    Raises:
        DataError: if a row cannot be parsed, or has no end.
    """
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for read in (io.StringIO(head, newline="").readline, text.readline):
            while line := read(MAX_ROW + 1):
                taken += len(line)
                if taken > MAX_ROW:
                    raise csv.Error(f"a row of more than {MAX_ROW:,} characters")
                yield line

    reader = csv.reader(lines(), delimiter=delimiter, quotechar=quotechar)
    try:
        for row in reader:
            taken = 0
            yield reader.line_num, row
    except csv.Error as e:
        raise DataError(
            f"expected CSV, found a row that cannot be parsed: {e}", where=f"{where}:{reader.line_num}"
        ) from e


_NAMES: Mapping[str, Sequence[str]] = module_table(__file__)
"""Column to its names in headers."""

_NEEDED = ("image", "class", "xmin", "ymin", "xmax", "ymax")
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_HEAD = 100_000
"""Number of characters from which the columns are detected."""

_DELIMITERS = (",", ";", "\t", "|")

SETS = {"TRAIN": "train", "TRAINING": "train", "VALIDATE": "eval", "VALIDATION": "eval", "TEST": "test"}
"""Google's names of the splits."""

UNASSIGNED = ("UNASSIGNED", "")
"""Google's names for images in no split."""


class Row(NamedTuple):
    """A row.

    Attributes:
        line: number of its last line in the file.
        subset: name of its split; "" if there is none.
        image: the image's name.
        size: width and height in pixels; 0 if the row has none.
        name: the class; "" for an image without objects.
        box: (xmin, ymin, xmax, ymax); None without a class.
        relative: whether the box is in fractions of the image, not pixels.
    """

    line: int
    subset: str
    image: str
    size: tuple[float, float]
    name: str
    box: Box | None
    relative: bool


Parse = Callable[[Sequence[str], int], Row]


def find_columns(text: str) -> tuple[str, bool, Parse] | None:
    """Return a CSV file's delimiter, whether it has a header, and its row parser; None if unknown."""
    lines = [line for line in text[:_HEAD].splitlines() if line.strip()]
    for delimiter in _DELIMITERS if lines else ():
        try:
            first = next(csv.reader(lines, delimiter=delimiter))
        except (csv.Error, StopIteration):
            continue
        columns = _columns(first)
        if columns:
            return delimiter, True, _header_parser(columns, decimal_comma=delimiter == ";")
        for recognises, parse in ((_is_cloud, _parse_cloud), (_is_retinanet, _parse_retinanet)):
            if recognises(first):
                return delimiter, False, parse
    return None


def read_rows(text: TextIO, where: str) -> Iterator[Row | tuple[int, Rejected]]:
    """Yield the rows of a CSV file opened with newline=""; for invalid rows, their line and fault.

    Raises:
        DataError: if the columns are unknown, or the file is no CSV.
    """
    # Read whole lines, so that the rest begins with one.
    head = text.read(_HEAD) + text.readline(MAX_ROW)
    known = find_columns(head)
    if known is None:
        raise DataError(
            "expected the columns filename, class, xmin, ymin, xmax, ymax, or those of an importer, found "
            f"{head[:100].splitlines()[:1]}",
            where=where,
        )
    delimiter, header, parse = known
    for line, row in split_rows(text, where, head, delimiter=delimiter):
        cells = [cell.strip() for cell in row]
        if header or not any(cells):
            header = header and not any(cells)
            continue
        try:
            yield parse(cells, line)
        except Rejected as e:
            e.mentions = cells
            yield line, e


def _columns(header: Sequence[str]) -> dict[str, int]:
    names = [name.strip().lower().replace(" ", "_").replace("-", "_") for name in header]
    found = {
        column: next((names.index(name) for name in known if name in names), -1)
        for column, known in _NAMES.items()
    }
    return found if all(found[column] >= 0 for column in _NEEDED) else {}


def _header_parser(columns: Mapping[str, int], *, decimal_comma: bool) -> Parse:
    image, name, width, height = (columns[column] for column in ("image", "class", "width", "height"))
    sides = [columns[side] for side in _SIDES]
    subset = columns["subset"]
    most = max(columns.values())

    def parse(cells: Sequence[str], line: int) -> Row:
        if len(cells) <= most:
            cells = [*cells, *[""] * (most + 1 - len(cells))]
        places = [cells[at] for at in sides]
        if decimal_comma:
            places = [place.replace(",", ".") for place in places]
        size = (
            _number(cells[width] or "0", "width", line) if width >= 0 else 0.0,
            _number(cells[height] or "0", "height", line) if height >= 0 else 0.0,
        )
        box = _box(places, cells[name], line)
        word = cells[subset] if subset >= 0 else ""
        return Row(line, word, cells[image], size, cells[name], box, False)

    return parse


def _is_cloud(cells: Sequence[str]) -> bool:
    path = cells[1:2] if cells[0].strip().upper() in (*SETS, *UNASSIGNED) else cells[:1]
    if len(cells) < 2 or not path:
        return False
    is_divided = path[0] is not cells[0] and bool(cells[0].strip()) and is_image(path[0].strip())
    return path[0].startswith("gs://") or is_divided


def _parse_cloud(cells: Sequence[str], line: int) -> Row:
    word = cells[0].upper() if cells[0].upper() in (*SETS, *UNASSIGNED) else ""
    rest = cells[1:] if word or not cells[0] else cells
    image, name, places = rest[0], rest[1] if len(rest) > 1 else "", rest[2:]
    values = [_number(text, "a coordinate", line) for text in places[:8] if text]
    if name and not values:
        raise Malformed(f"line {line}: expected the corners of a box, found none")
    if len(values) not in (0, 4, 8):
        raise Malformed(f"line {line}: expected two or four corners, found {len(values)} numbers")
    x, y = values[::2], values[1::2]
    box = (min(x), min(y), max(x), max(y)) if name else None
    return Row(line, word, image.partition("://")[2].partition("/")[2] or image, (0, 0), name, box, True)


def _is_retinanet(cells: Sequence[str]) -> bool:
    if len(cells) != 6 or not is_image(cells[0].strip()):
        return False
    return not any(cell.strip() for cell in cells[1:]) or all(map(is_number, cells[1:5]))


def _parse_retinanet(cells: Sequence[str], line: int) -> Row:
    cells = [*cells, *[""] * 6][:6]
    return Row(line, "", cells[0], (0, 0), cells[5], _box(cells[1:5], cells[5], line), False)


def _box(texts: Sequence[str], name: str, line: int) -> Box | None:
    if not name and not any(texts):
        return None
    if not name:
        raise Malformed(f"line {line}: expected a class, found none")
    xmin, ymin, xmax, ymax = (_number(text, side, line) for text, side in zip(texts, _SIDES, strict=True))
    return xmin, ymin, xmax, ymax


def _number(text: str, what: str, line: int) -> float:
    if not is_number(text):
        raise Malformed(f"line {line}: expected {what} as a number, found {text!r:.80}")
    return float(text)


def is_number(text: str) -> bool:
    """Return whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
