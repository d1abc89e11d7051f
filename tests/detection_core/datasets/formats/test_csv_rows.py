import io
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.datasets.formats.csv_rows import Row, read_rows
from detection_core.errors import DataError
from tests.support.cases import cases, refused

HEADER = "filename,width,height,class,xmin,ymin,xmax,ymax\n"


def _rows(text):
    return list(read_rows(io.StringIO(text, newline=""), "x.csv"))


@cases(
    (f"{HEADER}a.jpg,40,30,cat,1,2,3,4",
     (2, "", "a.jpg", (40, 30), "cat", (1, 2, 3, 4), False)),
    ('"xmin" ,ymin,X_MAX,y max,Label,Image\n1,2,3,4,"a, ""b""",x.png\n\n',
     (2, "", "x.png", (0, 0), 'a, "b"', (1, 2, 3, 4), False)),
    ("image;label;x1;y1;x2;y2\na.jpg;cat;1,5;2;3;4",
     (2, "", "a.jpg", (0, 0), "cat", (1.5, 2, 3, 4), False)),
    (f"{HEADER}a.jpg,40,30,,,,,", (2, "", "a.jpg", (40, 30), "", None, False)),
    ("a/b.jpg,1,2,3,4,cat", (1, "", "a/b.jpg", (0, 0), "cat", (1, 2, 3, 4), False)),
    ("a/b.jpg,,,,,", (1, "", "a/b.jpg", (0, 0), "", None, False)),
    ("TRAIN,gs://bucket/in/a.jpg,cat,0.1,0.2,,,0.3,0.4,,",
     (1, "TRAIN", "in/a.jpg", (0, 0), "cat", (0.1, 0.2, 0.3, 0.4), True)),
    ("test,gs://bucket/a.jpg,cat,0.1,0.2,0.3,0.2,0.3,0.4,0.1,0.4",
     (1, "TEST", "a.jpg", (0, 0), "cat", (0.1, 0.2, 0.3, 0.4), True)),
    ("gs://bucket/a.jpg,cat,0.1,0.2,,,0.3,0.4,,",
     (1, "", "a.jpg", (0, 0), "cat", (0.1, 0.2, 0.3, 0.4), True)),
    ("UNASSIGNED,gs://bucket/a.jpg,,,,,,,,,", (1, "UNASSIGNED", "a.jpg", (0, 0), "", None, True)),
    (",gs://bucket/a.jpg", (1, "", "a.jpg", (0, 0), "", None, True)),
)  # fmt: skip
def test_rows_of_every_kind_are_read(*, text, row):
    assert _rows(text) == [Row(*row)]


@cases(
    ("a.jpg,40,30,cat,1,2,3,", "xmax|ymax"), ("a.jpg,40,30,cat,1,2,three,4", "'three'"),
    ("a.jpg,40,30,,1,2,3,4", "expected a class"), ("a.jpg,40,30,cat,nan,2,3,4", "'nan'"),
    ("a.jpg,wide,30,cat,1,2,3,4", "width"),
)  # fmt: skip
def test_a_row_that_cannot_be_used_is_told_by_its_line(*, row, said):
    good = "b.jpg,40,30,cat,1,2,3,4"
    first, (line, error), last = _rows(f"{HEADER}{good}\n{row}\n{good}")
    assert line == 3 and error.reason == "malformed_annotation" and first.line == 2 and last.line == 4
    assert re.search(f"line 3: .*{said}", str(error))


def test_a_quoted_name_may_hold_a_line_break_and_other_columns_corners_and_long_fields_are_refused():
    (row,) = _rows(f'{HEADER}"a\nb.jpg",40,30,cat,1,2,3,4')
    assert row.image == "a\nb.jpg" and row.line == 3
    for numbers in ("0.1,0.2,0.3", "0.1,0.2,0.3,0.4,0.5,0.6", ""):
        ((line, error),) = _rows(f"TRAIN,gs://b/a.jpg,cat,{numbers}")
        assert line == 1 and "corners" in error.detail
    for text in ("", "a,b,c\n1,2,3", "filename,class\na.jpg,cat", "ImageID,Source,LabelName\n1,2,3"):
        refused(DataError, r"x\.csv: expected the columns filename, class", _rows, text)
    message = r"x\.csv:2: expected CSV, found a row that cannot be parsed"
    refused(DataError, message, _rows, f"{HEADER}{'a' * 200_000},40,30,cat,1,2,3,4")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_rows_or_reasons(text):
    for row in _rows(f"{HEADER}{text}"):
        assert isinstance(row, Row) or row[1].reason == "malformed_annotation"
