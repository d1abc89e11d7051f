"""Refusing configs, and single messages of them, before any tensor is made."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from google.protobuf.message import Message

from detection_core.config.contradictions import contradictions
from detection_core.config.messages.pipeline import size_problems
from detection_core.config.problems import raise_first
from detection_core.config.ranges import range_problems
from detection_core.config.refusals import find_refused, warn_without_effect
from detection_core.config.text.positions import nearest_line
from detection_core.config.text.text_proto import line_of
from detection_core.errors import ConfigError, Problem
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

_LISTED = 30
_LONGEST = 600  # characters of one problem


def check_pipeline_config(
    config: TrainEvalPipelineConfig, where: str = "", *, lines: Mapping[str, int] | None = None
) -> None:
    """Refuse a config whose values are out of range, contradict each other, or ask for what is not done here.

    Fields that are accepted but change nothing here are named in one line of the log.

    Args:
        config: a parsed config, overrides applied.
        where: file the config came from, for errors.
        lines: line of each field path, as `field_lines` gives them; without it errors name fields only.

    Raises:
        ConfigError: naming every problem with its field path, and with its line where that is known; what
            lies inside a refused message is not looked at.
    """
    found = {problem.path: problem for problem in find_refused(config)}
    refused = tuple(f"{path}." for path in found)
    for problem in find_problems(config):
        if not problem.path.startswith(refused):
            found.setdefault(problem.path, problem)
    problems = list(found.values())
    if not problems:
        warn_without_effect(config, where)
        return
    first, *rest = problems
    line = nearest_line(first.path, lines or {})
    message = f"{first.path}: {_short(first.message)}"
    for problem in rest[: _LISTED - 1]:
        also = nearest_line(problem.path, lines or {})
        message += f"\n  {f'line {also}: ' if also else ''}{problem.path}: {_short(problem.message)}"
    if len(problems) > _LISTED:
        message += f"\n  and {len(problems) - _LISTED:,} more"
    raise ConfigError(message, where=line_of(where, line) if line else where)


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}..."


def find_problems(config: TrainEvalPipelineConfig) -> list[Problem]:
    """Return contradictions and values out of range, each field once, in the order of the checks."""
    found: dict[str, Problem] = {}
    for problem in itertools.chain(
        contradictions(config, ""), range_problems(config, ""), size_problems(config)
    ):
        found.setdefault(problem.path, problem)
    return list(found.values())


def check_message(message: Message, where: str) -> None:
    """Refuse one message of a config, as the check of a whole config refuses it.

    Builders call it first, so that they translate nothing that was not checked; how the message goes with
    others of the config is not looked at.

    Args:
        message: any message of a config.
        where: its field path, for errors.

    Raises:
        ConfigError: for the first problem, with its field path as `where`.
    """
    raise_first(
        itertools.chain(
            find_refused(message, where), contradictions(message, where), range_problems(message, where)
        )
    )
