import dataclasses
import json
import os

import pytest

from detection_core.artifacts.json_file import JsonFile, JsonLines, JsonList
from detection_core.errors import ContractError
from tests.support.cases import cases, refused
from tests.support.storage_faults import few_descriptors


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thing:
    count: int
    name: str = ""


THING = JsonFile(name="thing.json", content=Thing, writer="Maker", remedy="make it again", version=2)
LINES = JsonLines(name="things.jsonl", content=Thing, writer="Maker", remedy="make them again")
LIST = JsonList(name="list.json", content=Thing)


@cases("", "{", "[]", "3", '{"count": "x"}', "[" * 100_000, '{"count": 1, "schema_version": "x"}')
def test_what_is_something_else_is_refused(tmp_path, *, text):
    (tmp_path / "thing.json").write_text(text)
    found = r"expected the JSON that Maker writes.*make it again"
    assert "thing.json" in refused(ContractError, found, THING.read, str(tmp_path)).where


def test_a_file_is_written_with_its_version_and_one_of_a_newer_version_is_refused(tmp_path):
    assert THING.find(str(tmp_path)) is None and THING.find("") is None
    refused(ContractError, "found no file; make it again", THING.read, str(tmp_path))
    (tmp_path / "thing.json").write_bytes(b"\xff\xfe{}")
    refused(ContractError, "cannot be read", THING.read, str(tmp_path))
    THING.write(str(tmp_path), Thing(count=3, name="a"))
    text = (tmp_path / "thing.json").read_text()
    assert json.loads(text) == {"count": 3, "name": "a", "schema_version": 2}
    assert text.endswith("}\n") and THING.read(str(tmp_path)) == Thing(count=3, name="a")
    (tmp_path / "thing.json").write_text('{"count": 3}')
    assert THING.find(str(tmp_path)) == Thing(count=3)
    (tmp_path / "thing.json").write_text('{"schema_version": 3, "amount": "three"}')
    found = "expected schema_version 2 or less, found 3: a newer detflow"
    error = refused(ContractError, found, THING.read, str(tmp_path))
    assert error.where == str(tmp_path / "thing.json")
    THING.write(str(tmp_path), Thing(count=1))
    with few_descriptors(0), pytest.raises(OSError, match="Too many open files"):
        THING.find(str(tmp_path))


def test_lines_and_lists_are_written_and_read_without_entries_of_something_else(tmp_path, caplog):
    things = [Thing(count=1), Thing(count=2, name="b")]
    LINES.write(str(tmp_path), things)
    assert (tmp_path / "things.jsonl").read_text() == '{"count": 1, "name": ""}\n{"count": 2, "name": "b"}\n'
    assert LINES.read(str(tmp_path)) == things
    assert LINES.read(str(tmp_path / "nowhere")) == LINES.read("") == []
    LIST.write(str(tmp_path), things)
    assert json.loads((tmp_path / "list.json").read_text()) == [dataclasses.asdict(thing) for thing in things]
    assert LIST.read_valid(str(tmp_path)) == things and LIST.read_valid(str(tmp_path / "nowhere")) == []
    (tmp_path / "list.json").write_text('[{"count": "x"}, {"count": 1}, 3]')
    assert LIST.read_valid(str(tmp_path)) == [Thing(count=1)]
    assert caplog.text.count("an entry is left out") == 2
    (tmp_path / "list.json").write_text('{"schema_version": 2}')
    assert LIST.read_valid(str(tmp_path)) == [] and "of version 1, found version 2" in caplog.text


@cases(
    (b'{"count": 1}\n{"cou', [1], "2"),
    (b'{"count": 1}\n\xff\xfe\x00\n{"count": 2, "name": "\xc3"}\n{"count": 3}\n', [1, 3], "23"),
)
def test_a_line_that_is_torn_or_no_text_is_refused_or_left_out(tmp_path, caplog, *, content, kept, told):
    (tmp_path / "things.jsonl").write_bytes(content)
    error = refused(ContractError, "", LINES.read, str(tmp_path))
    assert error.where.endswith("things.jsonl:2")
    assert LINES.read_whole_lines(str(tmp_path)) == [Thing(count=count) for count in kept]
    assert all(f"things.jsonl:{line}" in caplog.text for line in told)


def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path, caplog):
    os.mkfifo(tmp_path / "thing.json")
    os.mkfifo(tmp_path / "list.json")
    refused(ContractError, "expected a regular file", THING.find, str(tmp_path))
    assert LIST.read_valid(str(tmp_path)) == [] and "expected a regular file" in caplog.text
