import csv
import io
import os

import pytest

from detection_core.datasets.formats import csv_lines
from detection_core.datasets.formats.csv_lines import CsvLines, decode_head, open_csv
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.memory import memory_below


@cases("utf-8", "utf-8-sig", "utf-16")
def test_marks_of_unicode_are_no_part_of_the_first_column(tmp_path, *, encoding):
    (tmp_path / "a.csv").write_bytes("grün,2\r\n".encode(encoding))
    with open_csv(str(tmp_path / "a.csv")) as text:
        assert list(CsvLines(text)) == ["grün,2\r\n"]
    assert decode_head("grün".encode(encoding)).read() == "grün"


def test_another_encoding_is_refused_and_rows_of_any_number_have_the_bound_each(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n" * 1_000_000 + "grün".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.csv: expected CSV in UTF-8"), open_csv(str(path)) as text:
        list(CsvLines(text))
    refused(UnicodeError, "", lambda: decode_head("grün".encode("latin-1")))
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("pipe", "regular file"), ("none", "No such file")):
        message = f"{name}: expected a CSV file, .*{said}"
        refused(DataError, message, open_csv(str(tmp_path / name)).__enter__)
    monkeypatch.setattr(csv_lines, "MAX_ROW", 10)
    lines = CsvLines(io.StringIO("c,d\r\ne,f\r\n" * 5, newline=""), "a,b\r\n")
    rows = []
    for row in csv.reader(lines):
        lines.taken = 0
        rows.append(row)
    assert rows == [["a", "b"], *[["c", "d"], ["e", "f"]] * 5]


@cases("x", '"a\nb",')
def test_a_row_without_end_is_not_read_to_its_end(tmp_path, monkeypatch, *, unit):
    monkeypatch.setattr(csv_lines, "MAX_ROW", 1 << 14)
    (tmp_path / "a.csv").write_text(unit * (1 << 22))
    with memory_below(8 << 20), open_csv(str(tmp_path / "a.csv")) as text:
        refused(csv.Error, "more than 16,384 char", lambda: list(csv.reader(CsvLines(text))))
