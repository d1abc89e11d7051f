import argparse

import pytest

from detection_core.errors import ConfigError
from pipeline.cli.base import Result, Verb, argument, config_overrides, valid_config
from tests.pipeline.conftest import DIGITS
from tests.support.cases import refused


def test_arguments_that_cost_time_are_made_when_the_verb_is_used():
    made = []

    def costly():
        made.append(1)
        yield argument("--b")

    flags = (argument("a"), costly, argument("--c"))
    verb = Verb(name="v", summary="s", example="e", arguments=flags, command=print)
    assert not made
    assert [a.flags for a in verb.all_arguments()] == [("a",), ("--b",), ("--c",)] and made == [1]
    assert Result(text="", data=None).exit_code == 0


def test_overrides_are_split_and_a_config_has_them_or_is_refused_with_line_and_field():
    assert config_overrides(["b = 1", "a=x=y", "b="]) == [("b", " 1"), ("a", "x=y"), ("b", "")]
    assert config_overrides([]) == []
    with pytest.raises(ConfigError, match="--set: expected KEY=VALUE, found 'batch_size'"):
        config_overrides(["a=1", "batch_size"])

    def valid(override, file=DIGITS / "pipeline.config"):
        return valid_config(argparse.Namespace(file=str(file), overrides=[override], override_files=[]))

    assert valid("train_config.batch_size=3").train_config.batch_size == 3
    refused(ConfigError, "batch_size", valid, "train_config.batch_size=-1")
    refused(ConfigError, "nowhere", valid, "train_config.batch_size=3", "/nowhere.config")
