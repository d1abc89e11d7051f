"""Tables in results of verbs: plain columns for files and scripts, styled ones on a terminal."""

import dataclasses
import io
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from detection_core.redaction import clean
from pipeline.console import write_line

if TYPE_CHECKING:
    import rich.table

_GAP = "  "
# Words that a terminal shows in colour when they fill a cell.
_STYLES = {
    **dict.fromkeys(("succeeded", "passed", "ok", "on"), "green"),
    **dict.fromkeys(("failed", "refused", "problem"), "red"),
    **dict.fromkeys(("cancelled", "stopped", "paused", "note"), "yellow"),
    **dict.fromkeys(("cached", "skipped", "not run", "pending", "-"), "dim"),
    **dict.fromkeys(("running", "cancelling"), "cyan"),
}


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of texts.

    Attributes:
        rows: of equal length.
        header: whether the first row names the columns.
    """

    rows: Sequence[Sequence[str]]
    header: bool = True

    def __str__(self) -> str:
        rows = [[_one_line(cell) for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (_GAP.join(map(str.ljust, row, widths)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)


@dataclasses.dataclass(frozen=True)
class Page:
    """Texts of one or more lines, and tables, from top to bottom."""

    parts: tuple[str | Table, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts))


def write_page(page: str | Table | Page, stream: TextIO | None = None) -> None:
    """Write a result: styled and as wide as the terminal, or plain without a terminal.

    Texts are sanitised, so that a terminal ignores control sequences in them.
    """
    stream = stream or sys.stdout
    if isinstance(page, str) or not stream.isatty():
        write_line(str(page), stream)
    else:
        write_line(_styled(page), stream, is_clean=True)


def _styled(page: Table | Page) -> str:
    from rich.console import Console
    from rich.text import Text

    sink = io.StringIO()
    width = shutil.get_terminal_size().columns
    console = Console(file=sink, force_terminal=True, width=width, highlight=False)
    for part in page.parts if isinstance(page, Page) else (page,):
        if isinstance(part, Table):
            console.print(_rich_table(part))
        else:
            # The terminal wraps lines itself, so that URLs stay clickable.
            console.print(Text(clean(part)), soft_wrap=True)
    return sink.getvalue().rstrip("\n")


def _rich_table(table: Table) -> "rich.table.Table":
    from rich.table import Table as RichTable
    from rich.text import Text

    rows = [[Text(clean(_one_line(cell)), style=_STYLES.get(cell, "")) for cell in row] for row in table.rows]
    made = RichTable(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), show_header=table.header)
    head, body = (rows[0], rows[1:]) if table.header else ([Text()] * len(rows[0]), rows)
    for name in head:
        made.add_column(name, header_style="bold", overflow="fold")
    for row in body:
        made.add_row(*row)
    return made


def _one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")
