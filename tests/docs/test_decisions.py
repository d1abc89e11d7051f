import datetime
import re
from pathlib import Path

from tests.support.cases import cases

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
_NAME = re.compile(r"(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md")
_STATUS = re.compile(r"accepted|superseded by \[(\d{4})\]\((\d{4}-[a-z0-9-]+\.md)\)")
_SECTIONS = ["Why", "Decision", "Refused"]


def _head(path):
    title, empty, date, status, *_ = path.read_text(encoding="utf-8").splitlines()
    assert not empty and date.startswith("Date: ") and status.startswith("Status: ")
    return title.removeprefix("# "), date.removeprefix("Date: "), status.removeprefix("Status: ")


@cases(*enumerate(RECORDS, 1))
def test_a_record_is_whole_and_numbers_have_no_gap(*, number, path):
    assert path.name[:4] == f"{number:04d}"
    assert _NAME.fullmatch(path.name)
    title, date, status = _head(path)
    assert title.startswith(f"{path.name[:4]} ")
    assert datetime.date.fromisoformat(date) >= datetime.date(2026, 11, 20)
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == _SECTIONS
    assert all(section.strip() for section in re.split(r"^## .*$", text, flags=re.MULTILINE))
    found = _STATUS.fullmatch(status)
    assert found, status
    if found[1]:
        later = FOLDER / found[2]
        assert later.is_file() and later.name.startswith(found[1]) and later.name > path.name
        assert _head(later)[1] >= date


def test_the_index_has_each_record_with_its_date_and_status():
    rows = re.findall(
        r"^\| \[(\d{4})\]\((.*?)\) \| (.*?) \| (.*?) \| (.*) \|$",
        (FOLDER / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    heads = [(path.name[:4], path.name, *_head(path)) for path in RECORDS]
    assert rows == [(number, name, title[5:], *rest) for number, name, title, *rest in heads]
