"""Refusing configs that contradict themselves, before any tensor is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from detection_core.config.check_evaluation import check_evaluation
from detection_core.config.check_inputs import check_inputs
from detection_core.config.check_model import check_model
from detection_core.config.check_ranges import check_ranges
from detection_core.config.check_training import check_graph_rewriter, check_training
from detection_core.config.positions import nearest_line
from detection_core.config.problems import Problem
from detection_core.config.support.fields import find_refused, warn_without_effect
from detection_core.config.text_proto import line_of
from detection_core.data.label_map import LabelMap
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

Check = Callable[[TrainEvalPipelineConfig], Iterator[Problem]]

CHECKS: tuple[Check, ...] = (
    check_model,
    check_training,
    check_evaluation,
    check_inputs,
    check_graph_rewriter,
    check_ranges,
)


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
    message = f"{first.path}: {first.message}"
    for problem in rest:
        also = nearest_line(problem.path, lines or {})
        message += f"\n  {f'line {also}: ' if also else ''}{problem.path}: {problem.message}"
    raise ConfigError(message, where=line_of(where, line) if line else where)


def check_label_map(config: TrainEvalPipelineConfig, label_map: LabelMap, where: str = "") -> None:
    """Refuse a label map with ids that the model has no class for; fewer ids than classes are fine.

    Args:
        config: a checked config.
        label_map: the classes of the data.
        where: file the config came from, for errors.

    Raises:
        ConfigError: naming both numbers.
    """
    arm = config.model.WhichOneof("model")
    model = getattr(config.model, str(arm), None)
    num_classes = getattr(model, "num_classes", label_map.num_classes)
    # An explicit background is among the model's classes, and not in the label map.
    needed = label_map.num_classes + int(getattr(model, "explicit_background_class", False))
    if needed > num_classes:
        message = (
            f"model.{arm}.num_classes: expected {needed} or more, as the label map gives id"
            f" {label_map.num_classes} to {label_map.names[-1]!r}, found {num_classes}; set"
            f" num_classes={needed}"
        )
        raise ConfigError(message, where=where)


def find_problems(config: TrainEvalPipelineConfig) -> list[Problem]:
    """Return values out of range and contradictions, each field once, in the order of the checks."""
    found: dict[str, Problem] = {}
    for check in CHECKS:
        for problem in check(config):
            found.setdefault(problem.path, problem)
    return list(found.values())
