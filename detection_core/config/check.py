"""Check configs, whole or in part, before any tensor is created. Each config is checked once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from google.protobuf.message import Message

from detection_core.config.messages.detectors import missing_classes_problems
from detection_core.config.messages.pipeline import size_problems
from detection_core.config.messages.table import RULES
from detection_core.config.messages.training import endless_training_problems, validation_problems
from detection_core.config.num_classes import with_classes
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.config.refusals import (
    contradictions,
    find_refused,
    message_problems,
    range_problems,
    warn_without_effect,
)
from detection_core.config.text.positions import nearest_line
from detection_core.config.text.text_proto import line_of
from detection_core.detectors.family import FAMILIES, family_name, find_family
from detection_core.errors import ConfigError, Problem
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

_LISTED = 30
_LONGEST = 600  # maximum characters of one problem


def check_pipeline_config(
    config: TrainEvalPipelineConfig, where: str = "", *, lines: Mapping[str, int] | None = None
) -> CheckedConfig:
    """Return the config; refuse values that are out of range, contradictory or unsupported.

    Log accepted fields that have no effect in one line.

    Args:
        config: a parsed config, overrides applied.
        where: file the config came from, for errors.
        lines: line of each field path, as `field_lines` gives them; without it errors name fields only.

    Raises:
        ConfigError: naming every problem with its field path, and its line if known. Fields inside a refused
            message are not checked.
    """
    found = {problem.path: problem for problem in find_refused(config)}
    refused = tuple(f"{path}." for path in found)
    for problem in find_problems(config):
        if not problem.path.startswith(refused):
            found.setdefault(problem.path, problem)
    problems = list(found.values())
    if not problems:
        warn_without_effect(config, where)
        return CheckedConfig(config)
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
    """Return contradictions and values out of range, one problem per field, in the order of the checks."""
    found: dict[str, Problem] = {}
    for problem in itertools.chain(
        contradictions(config, ""), range_problems(config, ""), size_problems(config)
    ):
        found.setdefault(problem.path, problem)
    return list(found.values())


def check_detector(config: TrainEvalPipelineConfig) -> CheckedConfig:
    """Return the config; refuse it if its `model` cannot be built, without checking other sections.

    Raises:
        ConfigError: for the first problem, with its field path as `where`.
    """
    model = config.model
    if find_family(model) is None:
        reason = RULES["DetectionModel"].refused.get(str(model.WhichOneof("model")), "set one")
        raise ConfigError(
            f"expected {' or '.join(FAMILIES)}, found {family_name(model) or 'none'}: {reason}", where="model"
        )
    alone = TrainEvalPipelineConfig(model=model)
    found = itertools.chain(find_refused(alone), missing_classes_problems(model), find_problems(alone))
    raise_first(problem for problem in found if problem.path.startswith("model"))
    return CheckedConfig(config)


def check_classes_filled_in(config: CheckedConfig, classes: int) -> CheckedConfig:
    """Fill in the number of classes without background, if it is unset, and check the model with it.

    Raises:
        ConfigError: as `check_detector`.
    """
    filled = with_classes(config, classes)
    return config if filled is config else check_detector(filled)


def check_readers(config: TrainEvalPipelineConfig) -> CheckedConfig:
    """Refuse invalid input readers as `check_message` does; other sections are not checked."""
    for where, message in {
        "train_input_reader": config.train_input_reader,
        **_evaluation_readers(config),
    }.items():
        check_message(message, where)
    return CheckedConfig(config)


def check_evaluation(config: TrainEvalPipelineConfig) -> CheckedConfig:
    """Refuse an invalid `eval_config` or evaluation reader as `check_message` does; check nothing else."""
    check_evaluated_input(config)
    for where, message in {"eval_config": config.eval_config, **_evaluation_readers(config)}.items():
        check_message(message, where)
    return CheckedConfig(config)


def _evaluation_readers(config: TrainEvalPipelineConfig) -> dict[str, Message]:
    return {f"eval_input_reader[{i}]": reader for i, reader in enumerate(config.eval_input_reader)}


def check_evaluated_input(config: TrainEvalPipelineConfig) -> None:
    """Refuse a config without evaluation images, which the whole check accepts for training.

    Raises:
        ConfigError: naming the field.
    """
    if not config.eval_input_reader:
        raise ConfigError("expected an eval_input_reader, found none; add one", where="eval_input_reader")


def check_training(config: CheckedConfig) -> None:
    """Refuse a config without a training length, or with validation but no images for it.

    The config's input readers must be filled in.

    Raises:
        ConfigError: for the first problem, with its field path as `where`.
    """
    raise_first(itertools.chain(endless_training_problems(config.train_config), validation_problems(config)))


def check_quantization(config: CheckedConfig) -> None:
    """Refuse a config that does not say how to quantize; the ConfigError names the missing block."""
    if not config.graph_rewriter.HasField("quantization"):
        raise ConfigError(
            "expected a graph_rewriter block, which says how to quantize, found none; add"
            " `graph_rewriter { quantization { delay: 0 weight_bits: 8 activation_bits: 8 } }`",
            where="graph_rewriter",
        )


def check_message(message: Message, where: str) -> None:
    """Check one message of a config, without its relation to other messages.

    Raises:
        ConfigError: for the first problem, with its field path as `where`.
    """
    raise_first(message_problems(message, where))


def raise_first(problems: Iterator[Problem]) -> None:
    """Raise the first problem, as a ConfigError with its field path as `where`."""
    for problem in problems:
        raise ConfigError(problem.message, where=problem.path)
