"""Files, YAML and JSON from outside, within bounds."""

import io
import os
import resource

import pytest
import yaml

from detection_core.bounded import limits, plain_yaml
from detection_core.bounded.limits import MAX_DEPTH, MAX_VALUES, check_values, parse_json_text
from detection_core.bounded.plain_yaml import parse_yaml, parse_yaml_documents, parse_yaml_with_lines
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from tests.support.cases import cases, refused


def test_what_is_no_text_file_is_one_error(tmp_path):
    (tmp_path / "latin").write_bytes("name: café".encode("latin-1"))
    (tmp_path / "null").write_bytes(b"name: a\0b")
    os.mkfifo(tmp_path / "pipe")
    os.symlink("loop", tmp_path / "loop")
    with open(tmp_path / "large", "wb") as f:
        f.truncate(5 * 2**30)  # sparse
    most = f"a settings file of at most {files.MAX_TEXT_BYTES:,} bytes, found 5,368,709,120"
    for path, message in (
        (tmp_path / "none", "cannot read the settings file .*No such file"),
        (tmp_path / "loop", "cannot read the settings file"),
        (tmp_path / "latin", "expected a settings file in text format, found bytes that are not UTF-8"),
        (tmp_path / "null", "in text format, found null characters"),
        ("a\0b", "which no file can have"),
        (tmp_path, "found no regular file"),
        (tmp_path / "pipe", "found no regular file"),
        ("/dev/zero", "found no regular file"),
        (tmp_path / "large", most),
    ):
        error = refused(ConfigError, message, files.read_user_text, str(path), what="settings file")
        assert "\n" not in str(error)


def test_a_byte_order_mark_is_no_text_and_a_longer_file_may_be_allowed(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfmodel { }")
    assert files.read_user_text(str(path), what="pipeline.config") == "model { }"
    path.write_text("12345")
    assert files.read_user_text(str(path), what="list", longest=5) == "12345"
    refused(ConfigError, "at most 4 bytes, found 5", files.read_user_text, str(path), what="list", longest=4)
    monkeypatch.setattr(files, "open_regular", lambda path, limit: io.BytesIO(b"x" * 100))
    assert len(files.read_user_text("s3://bucket/a.txt", what="list", longest=100)) == 100
    message = "a list of at most 99 bytes, found more"
    refused(ConfigError, message, files.read_user_text, "s3://bucket/a.txt", what="list", longest=99)


def test_plain_values_are_those_of_pyyaml_but_for_dates_and_come_with_their_places():
    text = """
    texts: [a, 'b', "c", 1e5, '1', !!str 1, "2026-01-01", "!x"]
    numbers: [1, -2, 0x10, 1_000, 1.5, -.5, .inf, !!float 1]
    others: [true, No, ~, null, {}, [], ]
    1: {2: two, null: n}
    block: |
      one
        two
    """
    assert parse_yaml(text, "s.yaml") == yaml.safe_load(text)
    assert parse_yaml("[2026-01-01, 2026-13-45]", "s.yaml") == ["2026-01-01", "2026-13-45"]
    # A long row of digits is no number of base 60.
    assert parse_yaml("1" + ":1" * 1_000_000, "s.yaml").startswith("1:1:")
    tree, locations = parse_yaml_with_lines("a: 1\nb:\n  c: [x, y]\n", "s.yaml")
    assert tree == {"a": 1, "b": {"c": ["x", "y"]}}
    lines = {"a": 1, "b": 2, "b.c": 3, "b.c[0]": 3, "b.c[1]": 3}
    assert locations == {"": "s.yaml"} | {path: f"s.yaml:{line}" for path, line in lines.items()}
    assert parse_yaml_with_lines("", "s.yaml") == (None, {"": "s.yaml"})


def test_an_alias_is_a_copy_and_mappings_are_merged_as_pyyaml_merges_them():
    tree = parse_yaml("a: &x {k: [1]}\nb: *x\n", "s.yaml")
    tree["b"]["k"].append(2)
    assert tree["a"] == {"k": [1]}
    text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: [*a, *b], x: 5}\nd:\n  y: 6\n  <<: *a\n"
    tree, locations = parse_yaml_with_lines(text, "s.yaml")
    assert tree == yaml.safe_load(text) and tree["c"] == {"x": 5, "y": 2, "z": 4}
    assert locations["d.x"] == "s.yaml:1" and locations["d.y"] == "s.yaml:5"


def test_documents_are_read_one_by_one_and_tuples_of_python_where_they_are_asked_for():
    assert parse_yaml_documents("a: 1\n---\n- b\n", "s.yaml") == [{"a": 1}, ["b"]]
    assert parse_yaml_documents("", "s.yaml") == []
    several = "expected one YAML document, found several"
    refused(ConfigError, several, parse_yaml, "a: 1\n---\nb: 2\n", "s.yaml")
    assert parse_yaml("!!python/tuple [1, 2]", "s.yaml", tuples=True) == (1, 2)
    refused(ConfigError, "python/tuple", parse_yaml, "!!python/tuple [1, 2]", "s.yaml")


NO_PLAIN_VALUES = (
    '!!int "abc"', "!!int ''", '!!float "abc"', "!!float ''", '!!bool "abc"', "!!null abc",
    "!!timestamp 2026-01-01", "!!binary YQ==", "!!set {a}", "!!omap [a: 1]", "!!map [a]", "!!str [a]", "0x_",
    "9" * 100, "9" * 5000, "!foo bar", "!!python/object/apply:os.system [id]", "{a: 1, a: 2}",
    "{1: a, true: b}", "{[a]: b}", "{<<: 1}", "*unknown", "[a, }", "\t- a",
)  # fmt: skip


@cases(*NO_PLAIN_VALUES)
def test_what_is_no_plain_value_is_one_line_with_its_place(*, value):
    with pytest.raises(DataError, match=r"^s\.yaml:2:\d+: ") as caught:
        parse_yaml(f"a: 1\nname: {value}\n", "s.yaml", error=DataError)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


HOLDS_ITSELF = r"s\.yaml:1:\d+: expected no value that holds itself"
_LAUGHS = ["a: &a [x, x, x, x, x, x, x, x, x]"]
_LAUGHS += [f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]" for i in range(9)]


@cases(
    ("name: &a [*a]\n", HOLDS_ITSELF),
    ("a: &k {b: *k}\n", HOLDS_ITSELF),
    *((f"name: {text}", r"^s\.yaml: not valid YAML") for text in ("\x07", "\0", "'\ud800'")),
    *((text, f"nested at most {MAX_DEPTH} deep") for text in ("[" * 1_000_000, "- " * 20_000)),
    ("a: &a " + "[" * 30 + "]" * 30 + "\nb: " + "[" * 25 + "*a" + "]" * 25, "nested at most"),
    ("\n".join(_LAUGHS), f"at most {MAX_VALUES:,} values"),
    (f"a: &a {'x' * 100_000}\nb: [{'*a,' * 100}]", f"at most {files.MAX_TEXT_BYTES:,} characters"),
)
def test_what_yaml_cannot_hold_or_asks_for_too_much_is_refused(*, text, message):
    refused(ConfigError, message, parse_yaml, text, "s.yaml")


def test_values_are_counted_before_they_are_kept_and_merging_is_linear(monkeypatch):
    monkeypatch.setattr(plain_yaml, "MAX_VALUES", 100)
    message = r"s\.yaml:1:200: expected at most 100 values"
    refused(ConfigError, message, parse_yaml, "[" + "1," * 1_000, "s.yaml")
    monkeypatch.setattr(plain_yaml, "MAX_VALUES", 20_000)
    merged = ", ".join(f"{{k{i}: 1}}" for i in range(5_000))
    cpu = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    assert len(parse_yaml(f"<<: [{merged}]", "s.yaml")) == 5_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - cpu < 20  # each merged into a new one: minutes


def test_json_is_parsed_where_it_does_not_ask_for_too_much(monkeypatch):
    assert parse_json_text('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    message = "at most 4,194,304 values, found about 4,500,001"
    refused(ValueError, message, parse_json_text, "[" + "[]," * 2_250_000)
    refused(ValueError, "nested too deeply", parse_json_text, "[" * 100_000)
    refused(ValueError, "4300 digits", parse_json_text, "9" * 5000)
    monkeypatch.setattr(limits, "MAX_JSON_VALUES", 3)
    check_values('{"imageData": "' + "A" * 1000 + '"}')
    refused(ValueError, "found about 4", check_values, "[1,2,3,4]")
