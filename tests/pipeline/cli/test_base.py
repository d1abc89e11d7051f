"""What all verbs share."""

import argparse

import pytest

from detection_core.errors import ConfigError
from pipeline.cli.base import Result, Verb, argument, config_overrides, valid_config
from tests.pipeline.conftest import DIGITS


def _arguments(*overrides, file=DIGITS / "pipeline.config"):
    return argparse.Namespace(file=str(file), overrides=list(overrides), override_files=[])


def test_arguments_that_cost_time_are_made_when_the_verb_is_used():
    made = []

    def costly():
        made.append(1)
        yield argument("--b")

    flags = (argument("a"), costly, argument("--c"))
    verb = Verb(name="v", summary="s", example="e", arguments=flags, command=print)
    assert not made
    assert [a.flags for a in verb.all_arguments()] == [("a",), ("--b",), ("--c",)] and made == [1]


def test_overrides_are_split_at_the_first_equals_sign_and_keep_their_order():
    assert config_overrides(["b = 1", "a=x=y", "b="]) == [("b", " 1"), ("a", "x=y"), ("b", "")]
    assert config_overrides([]) == []
    with pytest.raises(ConfigError, match="--set: expected KEY=VALUE, found 'batch_size'"):
        config_overrides(["a=1", "batch_size"])


def test_a_config_is_returned_with_its_overrides_or_refused_with_line_and_field():
    assert valid_config(_arguments("train_config.batch_size=3")).train_config.batch_size == 3
    with pytest.raises(ConfigError, match="batch_size"):
        valid_config(_arguments("train_config.batch_size=-1"))
    with pytest.raises(ConfigError, match="nowhere"):
        valid_config(_arguments(file="/nowhere.config"))


def test_a_result_is_a_success_unless_it_says_otherwise():
    assert Result(text="", data=None).exit_code == 0
