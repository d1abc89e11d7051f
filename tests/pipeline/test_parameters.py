from __future__ import annotations

import pytest

from detection_core.errors import ConfigError
from pipeline.parameters import Parameter, check_parameters, parse_parameters

_KINDS = {
    "data_path": "STRING",
    "train_steps": "NUMBER_INTEGER",
    "learning_rate": "NUMBER_DOUBLE",
    "fast": "BOOLEAN",
    "tags": "LIST",
    "extra": "STRUCT",
}


@pytest.fixture
def declared():
    return {
        name: Parameter(name=name, type=kind, required=name == "data_path") for name, kind in _KINDS.items()
    }


def test_texts_become_typed_values(declared):
    texts = ["data_path=1", "train_steps=5", "learning_rate=1e-3", "fast=true", "tags=[1]", 'extra={"a": 1}']
    assert parse_parameters(declared, texts) == {
        "data_path": "1",
        "train_steps": 5,
        "learning_rate": 0.001,
        "fast": True,
        "tags": [1],
        "extra": {"a": 1},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train_stepz=5", "no parameter train_stepz; did you mean train_steps?"),
        ("nothing_like_it=5", "no parameter nothing_like_it; the pipeline has .*data_path"),
        ("train_steps=5.5", "--param train_steps: expected a whole number, found '5.5'"),
        ("train_steps=true", "expected a whole number"),
        ("learning_rate=NaN", "expected a number, found 'NaN'"),
        ("fast=yes", "expected true or false"),
        ("tags={}", "expected a list, as JSON"),
        ("train_steps", "expected NAME=VALUE"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(declared, text, message):
    with pytest.raises(ConfigError, match=message):
        parse_parameters(declared, [text])


def test_values_of_a_settings_file_are_checked_too(declared):
    assert check_parameters(declared, {"data_path": "x", "learning_rate": 1}, "s.yaml")
    with pytest.raises(ConfigError, match=r"s.yaml: train_steps: expected a whole number, found '5'"):
        check_parameters(declared, {"data_path": "x", "train_steps": "5"}, "s.yaml")
    with pytest.raises(ConfigError, match=r"no value for data_path.*give --param data_path=VALUE"):
        check_parameters(declared, {}, "s.yaml")
    with pytest.raises(ConfigError, match="no parameter x; the pipeline has none"):
        check_parameters({}, {"x": 1}, "s.yaml")
