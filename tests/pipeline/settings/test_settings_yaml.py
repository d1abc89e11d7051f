from __future__ import annotations

import os
import time

import pytest

from detection_core.errors import ConfigError
from pipeline.settings.settings_yaml import MAX_BYTES, MAX_DEPTH, parse_settings_text, read_settings_text


def test_values_come_with_the_places_of_their_keys():
    tree, locations = parse_settings_text("a: 1\nb:\n  c: [x, y]\n", "s.yaml")
    assert tree == {"a": 1, "b": {"c": ["x", "y"]}}
    assert locations == {
        "a": "s.yaml:1",
        "b": "s.yaml:2",
        "b.c": "s.yaml:3",
        "b.c[0]": "s.yaml:3",
        "b.c[1]": "s.yaml:3",
    }
    assert parse_settings_text("", "s.yaml") == (None, {})


def test_an_alias_is_a_value_of_its_own():
    tree, _ = parse_settings_text("a: &x {k: [1]}\nb: *x\n", "s.yaml")
    tree["b"]["k"].append(2)
    assert tree["a"] == {"k": [1]}


@pytest.mark.parametrize("text", ["name: one\nname: two\n", "data: {format: voc, format: coco}\n"])
def test_a_key_given_twice_is_refused(text):
    with pytest.raises(ConfigError, match=r"s.yaml:\d: not valid YAML: the key '\w+' is given twice"):
        parse_settings_text(text, "s.yaml")


@pytest.mark.parametrize(
    "value",
    [
        "2026-13-45",
        "2026-01-01T00:00:00+99:99",
        '!!int "abc"',
        '!!float "abc"',
        '!!timestamp "abc"',
        '!!bool "abc"',
        "!!binary é",
        "0x_",
        "9" * 5000,
        "!foo bar",
        "!!python/object/apply:os.system [id]",
    ],
)
def test_a_value_that_does_not_fit_its_tag_is_named_by_line(value):
    with pytest.raises(ConfigError, match=r"s.yaml:2: not valid YAML") as caught:
        parse_settings_text(f"a: 1\nname: {value}\n", "s.yaml")
    assert len(str(caught.value)) < 400


def test_aliases_of_aliases_are_counted_and_not_unfolded():
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]" for i in range(9)]
    begun = time.monotonic()
    with pytest.raises(ConfigError, match=r"expected at most 100,000 values.*found \d,\d{3},\d{3},\d{3}"):
        parse_settings_text("\n".join(lines), "s.yaml")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("text", ["name: &a [*a]\n", "a: &k {b: *k}\n"])
def test_values_that_hold_themselves_are_refused(text):
    with pytest.raises(ConfigError, match="no mapping that holds itself"):
        parse_settings_text(text, "s.yaml")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_000_000])
def test_deep_nesting_is_refused(depth):
    with pytest.raises(ConfigError, match=f"nested at most {MAX_DEPTH} deep"):
        parse_settings_text("[" * depth + "]" * depth, "s.yaml")


def test_what_is_no_settings_file_is_refused(tmp_path):
    (tmp_path / "latin.yaml").write_bytes("name: café".encode("latin-1"))
    os.mkfifo(tmp_path / "pipe.yaml")
    with open(tmp_path / "large.yaml", "wb") as f:
        f.truncate(MAX_BYTES + 1)
    for name, message in (
        ("none.yaml", "cannot read the settings file"),
        ("latin.yaml", "cannot read the settings file"),
        ("a\0b.yaml", "cannot read the settings file"),
        ("pipe.yaml", "expected a file, found something else"),
        ("large.yaml", r"expected a settings file of at most 16,777,216 bytes, found 16,777,217"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_settings_text(str(tmp_path / name))
    with pytest.raises(ConfigError, match=r"s.yaml: not valid YAML"):
        parse_settings_text("name: \x07", "s.yaml")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfname: x")
    assert read_settings_text(str(tmp_path / "bom.yaml")) == "name: x"
