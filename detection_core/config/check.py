"""Refusing configs that contradict themselves, before any tensor is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from detection_core.config.check_evaluation import check_evaluation
from detection_core.config.check_inputs import check_inputs
from detection_core.config.check_model import check_model
from detection_core.config.check_ranges import check_ranges
from detection_core.config.check_training import check_graph_rewriter, check_training
from detection_core.config.messages.hyperparams import check_initializers
from detection_core.config.messages.sizes import size_problems
from detection_core.config.problems import Problem
from detection_core.config.support.fields import find_refused, warn_without_effect
from detection_core.config.text.positions import nearest_line
from detection_core.config.text.text_proto import line_of
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

Check = Callable[[TrainEvalPipelineConfig], Iterator[Problem]]

CHECKS: tuple[Check, ...] = (
    check_model,
    check_training,
    check_evaluation,
    check_inputs,
    check_graph_rewriter,
    check_initializers,
    check_ranges,
    size_problems,
)
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
    """Return values out of range and contradictions, each field once, in the order of the checks."""
    found: dict[str, Problem] = {}
    for check in CHECKS:
        for problem in check(config):
            found.setdefault(problem.path, problem)
    return list(found.values())
