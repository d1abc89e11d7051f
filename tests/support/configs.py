"""Configs of our own that the tests share."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

from detection_core.config.check import (
    check_message,
    check_pipeline_config,
    contradictions,
    find_problems,
    find_refused,
    range_problems,
)
from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.errors import ConfigError, Problem
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

FOLDER = Path(__file__).parents[1] / "detection_core" / "config" / "data"
PATHS = sorted(str(path) for path in FOLDER.glob("*.config"))
PYRAMID = str(FOLDER / "ssd_pyramid.config")
LAYERS = str(FOLDER / "ssd_layers.config")
TWO_STAGE = str(FOLDER / "two_stage.config")
CENTER = str(FOLDER / "center.config")
RETINA = str(FOLDER / "retina.config")
AnyMessage = TypeVar("AnyMessage", bound=Message)


def line_with(path: str, text: str) -> int:
    """Number of the first line that holds the text."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    return next(i for i, line in enumerate(lines, start=1) if text in line)


def changed(path: str, changes: Any) -> TrainEvalPipelineConfig:
    """Load one of our configs and change fields of it."""
    return apply_overrides(load_pipeline_config(path), changes)


def assert_problems(path: str, changes: dict[str, Any], expected: set[str]) -> None:
    """The changed config has problems at exactly these fields, and is refused."""
    config = changed(path, changes)
    assert {problem.path for problem in find_problems(config)} == expected
    with pytest.raises(ConfigError):
        check_pipeline_config(config)


def assert_each_refused(path: str, changes: dict[str, Any]) -> None:
    """Each change of one field, made alone, gives a problem at that field and nowhere else."""
    failures = []
    for field, value in changes.items():
        try:
            assert_problems(path, {field: value}, {field})
        except (AssertionError, ConfigError, pytest.fail.Exception) as error:
            failures.append(f"{field}, {value}: {error}")
    assert not failures, "\n".join(failures)


def assert_any(problems: Iterable[Problem], pattern: str) -> None:
    """One of the problems, as `path: message`, matches."""
    found = [f"{problem.path}: {problem.message}" for problem in problems]
    assert any(re.search(pattern, line) for line in found), found


def parsed(kind: type[AnyMessage], text: str) -> AnyMessage:
    """Read a message of a type from its text."""
    return text_format.Parse(text, kind())


def checked(message: AnyMessage, where: str = "m") -> AnyMessage:
    """Return a message, as builders may have it, or raise the check's refusal."""
    check_message(message, where)
    return message


def find_in(message: Message, path: str) -> list[Problem]:
    """What is wrong with one message."""
    return [*find_refused(message, path), *contradictions(message, path), *range_problems(message, path)]


def assert_fine(path: str, changes: dict[str, Any]) -> None:
    """The changed config does not contradict itself, whether or not its model is built here."""
    assert not find_problems(changed(path, changes))
