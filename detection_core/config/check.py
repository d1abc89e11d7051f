"""Check configs, whole or in part, before any tensor is created. Each config is checked once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from detection_core.allowed_values import FACTOR, FRACTION, POSITIVE, POSITIVE_FRACTION, Range, up_to
from detection_core.config.messages.detectors import missing_classes_problems
from detection_core.config.messages.pipeline import size_problems
from detection_core.config.messages.table import RULES, rules_of
from detection_core.config.messages.training import endless_training_problems, validation_problems
from detection_core.config.num_classes import with_classes
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.config.problems import child_path, missing_arm, raise_first, walk_messages
from detection_core.config.refusals import find_refused, warn_without_effect
from detection_core.config.text.positions import nearest_line
from detection_core.config.text.text_proto import line_of
from detection_core.data.label_map import MAX_CLASS_ID
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
    check_message(config.train_input_reader, "train_input_reader")
    _check_evaluation_readers(config)
    return CheckedConfig(config)


def check_evaluation(config: TrainEvalPipelineConfig) -> CheckedConfig:
    """Refuse an invalid `eval_config` or evaluation reader as `check_message` does; check nothing else."""
    check_message(config.eval_config, "eval_config")
    _check_evaluation_readers(config)
    check_evaluated_input(CheckedConfig(config))
    return CheckedConfig(config)


def _check_evaluation_readers(config: TrainEvalPipelineConfig) -> None:
    for i, reader in enumerate(config.eval_input_reader):
        check_message(reader, f"eval_input_reader[{i}]")


def check_evaluated_input(config: CheckedConfig) -> None:
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
    raise_first(
        itertools.chain(
            find_refused(message, where), contradictions(message, where), range_problems(message, where)
        )
    )


def contradictions(message: Message, path: str) -> Iterator[Problem]:
    """Find missing or contradictory fields in a message and its submessages.

    Submessages come first, so that they are valid before their parent uses them.
    """
    for location, part in walk_messages(message, path, parts_first=True):
        yield from _own(part, location)


def _own(message: Any, path: str) -> Iterator[Problem]:
    """Find problems of the message itself, and missing submessages that it needs."""
    rules = rules_of(message.DESCRIPTOR)
    for oneof in rules.oneofs:
        yield from missing_arm(message, oneof, path, refused=rules.refused)
    for name in rules.parts:
        if not message.HasField(name):
            yield from _own(getattr(message, name), f"{path}.{name}".lstrip("."))
    yield from rules.check(message, path)


BY_FIELD_NAME: Mapping[str, Range] = {
    "probability": FRACTION,
    "random_coef": FRACTION,
    "min_object_covered": FRACTION,
    "overlap_thresh": FRACTION,
    "max_area": FRACTION,
    "momentum_optimizer_value": FRACTION,
    "min_aspect_ratio": POSITIVE,
    "max_aspect_ratio": POSITIVE,
    "iou_threshold": FRACTION,
    "dropout_keep_probability": POSITIVE_FRACTION,
    "depth_multiplier": FACTOR,
    "pad_to_multiple": up_to(1_024),
    "num_classes": Range(-math.inf, MAX_CLASS_ID, f"a number up to {MAX_CLASS_ID:,}"),
    "logit_scale": POSITIVE,
    "y_scale": POSITIVE,
    "x_scale": POSITIVE,
    "height_scale": POSITIVE,
    "width_scale": POSITIVE,
    "length_scale": POSITIVE,
}
"""Ranges of fields that have the same meaning in every message."""

# Upper bounds for which 0 means no limit.
_ZERO_IS_OFF = {"max_depth", "max_image_height", "max_image_width"}
# Name parts of lower bounds and of their upper bounds.
_PAIRS = (("min_", "max_"), ("minval", "maxval"), ("_min", "_max"), ("lower_bound", "upper_bound"))
_ORDERED = {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_FLOAT}


def range_problems(message: Message, path: str) -> Iterator[Problem]:
    """Find numbers out of range or not finite, and swapped bounds, also in submessages."""
    for location, part in walk_messages(message, path):
        yield from _not_finite(location, part)
        yield from _out_of_range(location, part)
        yield from _bounds(location, part)


def _not_finite(path: str, message: Message) -> Iterator[Problem]:
    for field, value in message.ListFields():
        if field.cpp_type != FieldDescriptor.CPPTYPE_FLOAT:
            continue
        for index, element in _elements(field, value):
            if not math.isfinite(element):
                text = f"expected a finite number of 32 bits, found {element}"
                yield Problem(path=child_path(path, field, index), message=text)


def _out_of_range(path: str, message: Message) -> Iterator[Problem]:
    own = rules_of(message.DESCRIPTOR).ranges
    for field in cast(Descriptor, message.DESCRIPTOR).fields:
        if field.name in own:
            allowed = own[field.name]
        elif field.name in BY_FIELD_NAME and message.HasField(field.name):
            allowed = BY_FIELD_NAME[field.name]
        else:
            continue
        elements = _elements(field, getattr(message, field.name))
        wrong = next(
            (pair for pair in elements if math.isfinite(pair[1]) and not allowed.holds(pair[1])), None
        )
        if wrong is not None:
            text = f"expected {allowed.text}, found {_shown(wrong[1])}"
            yield Problem(path=child_path(path, field, wrong[0]), message=text)


def _elements(field: FieldDescriptor, value: Any) -> Iterator[tuple[int | None, float]]:
    """Yield the numbers of a field, with their index in a list."""
    if field.is_repeated:
        yield from enumerate(value)
    else:
        yield None, value


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _bounds(path: str, message: Message) -> Iterator[Problem]:
    """Compare bounds if at least one is set; the other may be the schema's default."""
    fields = cast(Descriptor, message.DESCRIPTOR).fields_by_name
    for low in fields.values():
        high = next((fields.get(low.name.replace(a, b, 1)) for a, b in _PAIRS if a in low.name), None)
        if high is None or high is low or low.is_repeated or low.cpp_type not in _ORDERED:
            continue
        low_value, high_value = getattr(message, low.name), getattr(message, high.name)
        given = message.HasField(low.name) or message.HasField(high.name)
        off = high.name in _ZERO_IS_OFF and high_value == 0
        if given and not off and low_value > high_value:
            text = f"expected at most {high.name}, which is {high_value:g}, found {low_value:g}"
            yield Problem(path=child_path(path, low), message=text)
