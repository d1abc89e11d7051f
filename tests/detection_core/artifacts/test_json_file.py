"""JSON as artifacts have it: values, files, and the records of blessings, runs and published versions."""

import ast
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts import detector, published, run_info
from detection_core.artifacts.blessing import read_verdict, write_blessing
from detection_core.artifacts.json_file import JsonFile, JsonLines
from detection_core.artifacts.json_values import JSON_KEY, OMIT_DEFAULT, JsonFault, decode, encode
from detection_core.artifacts.published import Deployment, PublishedVersion
from detection_core.artifacts.run_info import RUN, RUN_STATUSES, STEP_STATES, RunInfo, StepInfo
from detection_core.errors import ContractError
from detection_core.storage import files
from tests.docs import artifact_schemas
from tests.support.cases import cases, refused
from tests.support.storage_faults import KILLED, few_descriptors, killed_at, watched

FULL = {"count": 3, "ratio": 1, "good": False, "names": ["a"], "inner": [{"class": "cat", "box": [1, 2.5]}]}
FULL |= {"metrics": {"mAP": 0.5, "AR": None}, "note": "n", "more": {"x": [1]}}
_TEXT = st.text(max_size=20)
_STEPS = st.builds(
    StepInfo,
    **dict.fromkeys(("id", "component", "started", "error"), _TEXT),
    state=st.sampled_from(STEP_STATES),
    seconds=st.floats(0, 1e6),
    outputs=st.dictionaries(_TEXT, _TEXT, max_size=3),
)
_TEXT_FIELDS = ("run_id", "pipeline_name", "started", "finished", "settings_text", "workspace")
_RUNS = st.builds(
    RunInfo,
    **dict.fromkeys(_TEXT_FIELDS, _TEXT),
    status=st.sampled_from(RUN_STATUSES),
    steps=st.lists(_STEPS, max_size=3).map(tuple),
)
_TEXT_FIELDS_NOTHING = dict.fromkeys(("started", "finished", "settings_text", "workspace"), "")
_FAILED = (StepInfo(id="a", component="b", state="failed"),)
_RUN = RunInfo(run_id="r", pipeline_name="p", status="failed", steps=_FAILED, **_TEXT_FIELDS_NOTHING)
DATA = json.loads(RUN.format(_RUN))
_BROKEN_POINTERS = (
    *("", "{", "[]", "null", "[" * 99999, "\xff\xfe", '{"version": 5}', '{"rolled_back": []}'),
    *(f'{{"version": {version}, "rolled_back": []}}' for version in ('"abc"', "1.5", "true")),
    *(f'{{"version": 5, "rolled_back": {numbers}}}' for numbers in ('{"a": 1}', "null")),
)
_BROKEN_RECORDS = (
    *("", "[]", "{}", "\xff", '{"number": 4}', '{"number": "5"}'),
    *(f'{{"number": 5, {field}}}' for field in ('"metrics": []', '"run_key": 5', '"files": "x"')),
)
ROOT = Path(__file__).parents[3]
PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
NAMES = {file.name for file in artifact_schemas.files()}
NAMES |= {detector.PIPELINE_CONFIG, detector.LABEL_MAP, run_info.LOG_FILE, run_info.REPORT_FILE}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    label: str = dataclasses.field(metadata={JSON_KEY: "class"})
    box: tuple[float, float] = (0.0, 1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
    count: int
    ratio: float | None = None
    good: bool = True
    names: tuple[str, ...] = ()
    inner: list[Inner] = dataclasses.field(default_factory=list)
    metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    note: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)
    more: dict[str, Any] = dataclasses.field(default_factory=dict, metadata=OMIT_DEFAULT)


def test_what_is_read_and_written_again_has_the_same_bytes():
    value = decode(Outer, FULL)
    assert value.inner[0] == Inner(label="cat", box=(1, 2.5)) and value.names == ("a",)
    assert json.dumps(encode(value)) == json.dumps(FULL)
    assert decode(Outer, {"count": 1, "later": [1, 2]}) == Outer(count=1)
    written = encode(Outer(count=1))
    assert "note" not in written and "more" not in written and written["ratio"] is None


@cases(
    ({"count": True}, "expected a whole number as count, found True"),
    ({"count": 1.5}, "expected a whole number as count, found 1.5"),
    ({"ratio": "x"}, "expected a number as ratio, found 'x'"),
    ({"good": 1}, "expected true or false as good, found 1"),
    ({"names": "ab"}, "expected a list as names, found 'ab'"),
    ({"inner": [{"class": "a", "box": [1]}]}, r"expected a list of 2 as inner\[0\].box"),
    ({"inner": [{}]}, r"expected class in inner\[0\], found none"),
    ({"metrics": {"mAP": []}}, r"expected a number as metrics.mAP, found \[\]"),
    ({"metrics": []}, "expected an object as metrics"),
)
def test_a_fault_is_named_with_its_place(*, change, message):
    refused(JsonFault, message, decode, Outer, {**FULL, **change})


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda v: st.lists(v) | st.dictionaries(st.sampled_from([*FULL, "class", "box"]), v),
    )
)
def test_any_json_is_read_or_refused(value):
    try:
        assert isinstance(decode(Outer, value), Outer)
    except JsonFault as fault:
        assert "expected" in str(fault)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thing:
    count: int
    name: str = ""


THING = JsonFile(name="thing.json", content=Thing, writer="Maker", remedy="make it again", version=2)
LINES = JsonLines(name="things.jsonl", content=Thing, writer="Maker", remedy="make them again")


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
    assert refused(ContractError, found, THING.read, str(tmp_path)).where == str(tmp_path / "thing.json")
    THING.write(str(tmp_path), Thing(count=1))
    with few_descriptors(0), pytest.raises(OSError, match="Too many open files"):
        THING.find(str(tmp_path))


def test_lines_are_written_and_read_without_those_of_something_else(tmp_path, caplog):
    things = [Thing(count=1), Thing(count=2, name="b")]
    LINES.write(str(tmp_path), things)
    assert (tmp_path / "things.jsonl").read_text() == '{"count": 1, "name": ""}\n{"count": 2, "name": "b"}\n'
    assert LINES.read(str(tmp_path)) == things
    assert LINES.read(str(tmp_path / "nowhere")) == LINES.read("") == []
    assert LINES.read_whole_lines(str(tmp_path)) == things
    assert LINES.read_whole_lines(str(tmp_path / "nowhere")) == []
    (tmp_path / "things.jsonl").write_text(
        '{"count": "x"}\n{"count": 1}\n3\n{"count": 1, "schema_version": 2}'
    )
    assert LINES.read_whole_lines(str(tmp_path)) == [Thing(count=1)]
    assert caplog.text.count("a line is left out") == 3 and "found 2: a newer detflow" in caplog.text


@cases(
    (b'{"count": 1}\n{"cou', [1], "2"),
    (b'{"count": 1}\n\xff\xfe\x00\n{"count": 2, "name": "\xc3"}\n{"count": 3}\n', [1, 3], "23"),
)
def test_a_line_that_is_torn_or_no_text_is_refused_or_left_out(tmp_path, caplog, *, content, kept, told):
    (tmp_path / "things.jsonl").write_bytes(content)
    assert refused(ContractError, "", LINES.read, str(tmp_path)).where.endswith("things.jsonl:2")
    assert LINES.read_whole_lines(str(tmp_path)) == [Thing(count=count) for count in kept]
    assert all(f"things.jsonl:{line}" in caplog.text for line in told)


def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path, caplog):
    os.mkfifo(tmp_path / "thing.json")
    os.mkfifo(tmp_path / "things.jsonl")
    refused(ContractError, "expected a regular file", THING.find, str(tmp_path))
    assert LINES.read_whole_lines(str(tmp_path)) == [] and "expected a regular file" in caplog.text


def test_a_refusal_leaves_no_blessing_even_when_killed_and_a_marker_alone_is_a_verdict(tmp_path):
    folder = str(tmp_path / "b")
    verdicts = (True, "BLESSED", ["mAP is 0.9"]), (False, "NOT_BLESSED", ["mAP is 0.1"])
    for blessed, marker, reasons in verdicts:
        write_blessing(folder, blessed, reasons)
        assert sorted(os.listdir(folder)) == [marker, "reasons.json"]
        verdict = read_verdict(folder)
        assert verdict.blessed is blessed and verdict.reasons == reasons
    # Nor does a refusal that is killed leave a blessing.
    for at in range(1, 12):
        folder = str(tmp_path / str(at))
        write_blessing(folder, True, [])
        with watched(killed_at(at)) as changes:
            try:
                write_blessing(folder, False, ["mAP is 0.1"])
            except KILLED:
                assert at == 1 or not read_verdict(folder).blessed
    assert changes.made < 11
    for marker in ("BLESSED", "NOT_BLESSED"):  # a marker alone is a verdict of others
        files.write_text(f"{tmp_path}/{marker}-alone/{marker}", "")
        verdict = read_verdict(f"{tmp_path}/{marker}-alone")
        assert verdict.blessed is (marker == "BLESSED") and not verdict.reasons


@cases(
    ({"BLESSED": "", "NOT_BLESSED": ""}, "found BLESSED and NOT_BLESSED"),
    ({}, "found neither"),
    ({"BLESSED": "", "reasons.json": '{"blessed": false, "reasons": []}'}, "found the contrary"),
    ({"BLESSED": "", "reasons.json": "{"}, "expected the JSON that a gate writes"),
    ({"BLESSED": "", "reasons.json": "[]"}, "expected the JSON that a gate writes"),
)
def test_a_verdict_that_contradicts_itself_blesses_nothing(tmp_path, *, names, message):
    for name, text in names.items():
        files.write_text(str(tmp_path / name), text)
    verdict = read_verdict(str(tmp_path))
    assert not verdict.blessed and message in verdict.reasons[0]


@given(_RUNS)
def test_a_run_survives_a_round_trip(run):
    assert RUN.parse(RUN.format(run), "run.json") == run


@cases(
    {"started": 5},
    {"pipeline_name": None},
    {"steps": "abc"},
    {"steps": [{"id": "a", "component": "b", "state": "failed", "outputs": "text"}]},
    {"steps": [{"id": "a", "component": "b", "state": "failed", "outputs": {"a": 1}}]},
    {"steps": [{"id": "a", "component": "b", "state": "zzz"}]},
    {"checks": []},
    {"status": "exploded"},
)
def test_a_value_of_another_type_is_refused(*, change):
    refused(ContractError, "", RUN.parse, json.dumps({**DATA, **change}), "run.json")


def test_unknown_fields_are_passed_over_and_what_is_newer_or_no_run_is_refused():
    assert RUN.parse(json.dumps({**DATA, "colour": "blue"}), "run.json") == _RUN
    newer = json.dumps({**DATA, "format_version": 9})
    refused(ContractError, "found 9: a newer detflow", RUN.parse, newer, "run.json")
    for text in ("{}", "[]", "nonsense"):
        refused(ContractError, "", RUN.parse, text, "run.json")


def test_records_and_pointers_are_read_back_and_fields_of_later_versions_passed_over(tmp_path):
    path = str(tmp_path / "5.json")
    version = PublishedVersion(number=5, run_key="k", files={"saved_model.pb": 3})
    files.write_text(path, published.VERSION.format(version))
    assert published.read_version(path, 5) == version
    data = json.loads((tmp_path / "5.json").read_text())
    (tmp_path / "5.json").write_text(json.dumps({**data, "colour": "blue"}))
    assert published.read_version(path, 5) == version
    root = str(tmp_path)
    assert published.read_deployment(root) == Deployment(None, ()) and not published.is_destination(root)
    published.CURRENT.write(root, Deployment(3, (2, 1)))
    assert published.read_deployment(root) == Deployment(3, (1, 2)) and published.is_destination(root)
    (tmp_path / "current.json").write_text('{"version": 3, "rolled_back": [], "colour": "blue"}')
    assert published.read_deployment(root) == Deployment(3, ())


def _read_fifth(root):
    return published.read_version(f"{root}/5.json", 5)


@cases(
    *(("current.json", published.read_deployment, text) for text in _BROKEN_POINTERS),
    *(("5.json", _read_fifth, text) for text in _BROKEN_RECORDS),
)
def test_a_damaged_pointer_or_record_is_named_and_a_newer_one_refused_as_newer(tmp_path, *, name, read, text):
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    assert refused(ContractError, "--to VERSION", read, str(tmp_path)).where == str(tmp_path / name)
    (tmp_path / name).write_text('{"number": 5, "version": 5, "rolled_back": [], "format_version": 2}')
    refused(ContractError, "found 2: a newer detflow has written this", read, str(tmp_path))


def test_a_pipe_is_no_pointer_and_numbers_are_those_that_tensorflow_serving_reads(tmp_path):
    os.mkfifo(tmp_path / "current.json")
    refused(ContractError, "found what cannot be read", published.read_deployment, str(tmp_path))
    assert published.version_numbers(["10", "9", ".9", "x", "²", "\u0661", "1.5", "-3"]) == [9, 10]


def literals(source: str) -> list[tuple[int, str]]:
    """(line, text) of each literal of a name; what a message (`what=`, `help=`) says is no path."""
    tree = ast.parse(source)
    keywords = [k for node in ast.walk(tree) if isinstance(node, ast.Call) for k in node.keywords]
    spoken = {id(keyword.value) for keyword in keywords if keyword.arg in ("what", "help")}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in spoken
        and node.value.rpartition("/")[2] in NAMES
    ]


@cases(*PACKAGES)
def test_no_literal_of_a_file_s_name_outside_of_its_module(*, package):
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("detection_core/artifacts/"):
            source = path.read_text(encoding="utf-8")
            if any(known in source for known in NAMES):
                found += [f"{name}:{line}: {text}" for line, text in literals(source)]
    assert found == []


def test_what_is_looked_for_is_found():
    assert literals('read(folder, "metrics.json")') == [(1, "metrics.json")]
    assert literals('f"{folder}/metrics.json"') == [(1, "/metrics.json")]
    assert literals('read(path, what="pipeline.config")') == [] == literals('"say metrics.json here"')
