"""Check configs, whole or in part, before any tensor is created. Each config is checked once.

Refused are unsupported, missing and contradictory fields, and numbers out of range.
"""

import itertools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from detection_core.allowed_values import Range
from detection_core.config.messages.pipeline import missing_classes_problems, size_problems
from detection_core.config.messages.table import BY_FIELD_NAME, RULES, rules_of
from detection_core.config.messages.training import endless_training_problems, validation_problems
from detection_core.config.model_fields import with_classes
from detection_core.config.paths.field_paths import child_path, walk_messages
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.config.text.source_text import nearest_line
from detection_core.config.text.text_proto import line_of
from detection_core.detectors.family import FAMILIES, family_name, find_family
from detection_core.detectors.rules import Rules, missing_arm, wrong_fields
from detection_core.errors import ConfigError, Problem
from detection_core.protos.eval_pb2 import EvalConfig
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

_logger = logging.getLogger(__name__)

# Upper bounds for which 0 means no limit.
_ZERO_IS_OFF = {"max_depth", "max_image_height", "max_image_width"}
# Name parts of lower bounds and of their upper bounds.
_PAIRS = (("min_", "max_"), ("minval", "maxval"), ("_min", "_max"), ("lower_bound", "upper_bound"))
_ORDERED = {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_FLOAT}


def message_problems(message: Message, where: str) -> Iterator[Problem]:
    """Find all that is wrong with a message and its submessages, without relation to other messages."""
    yield from find_refused(message, where)
    yield from contradictions(message, where)
    yield from range_problems(message, where)


def find_refused(config: Message, where: str = "") -> Iterator[Problem]:
    """Find fields that request unsupported features; a default value requests nothing."""
    model = getattr(config, "model", None)
    registered = model is not None and find_family(model) is not None
    for path, field, value, rules in _asked(config, where):
        if field.name in rules.refused and not (registered and path.rpartition(".")[0] == "model"):
            expected = "none" if field.message_type or field.is_repeated else _text(field, None)
            message = f"expected {expected}, found {_text(field, value)}: {rules.refused[field.name]}"
            yield Problem(path=path, message=message)
        reasons = rules.refused_values.get(field.name, {})
        if field.enum_type is not None and _text(field, value) in reasons:
            others = [v.name for v in field.enum_type.values if v.name not in reasons]
            found = _text(field, value)
            yield Problem(
                path=path, message=f"expected {' or '.join(others)}, found {found}: {reasons[found]}"
            )


def find_without_effect(config: Message) -> list[Problem]:
    """Return the fields that are set to a non-default value and have no effect here."""
    return [
        Problem(path=path, message=rules.without_effect[field.name])
        for path, field, _, rules in _asked(config)
        if field.name in rules.without_effect
    ]


def warn_without_effect(config: Message, where: str = "") -> None:
    """Log one line that lists fields without effect, once per process.

    A config without a known file does not repeat that file's warnings.
    """
    found = find_without_effect(config)
    if found:
        _warn_once(where, "; ".join(f"{field.path} ({field.message})" for field in found))


_WARNED: dict[str, set[str]] = {}


def _warn_once(where: str, listed: str) -> None:
    files = _WARNED.setdefault(listed, set())
    if where in files or (files and not where):
        return
    files.add(where)
    _logger.warning("%s: without effect here: %s", where or "config", listed)


def _asked(config: Message, where: str = "") -> Iterator[tuple[str, FieldDescriptor, Any, Rules]]:
    """Yield every field with a non-default value, without fields inside refused ones."""
    refused: tuple[str, ...] = ()
    for path, message, rules in _parts(config, where):
        if path.startswith(refused or ("\0",)):
            continue
        for field, value in message.ListFields():
            if field.message_type is None and not field.is_repeated and value == field.default_value:
                continue
            yield child_path(path, field), field, value, rules
            if field.name in rules.refused or field.name in rules.without_effect:
                refused = (*refused, f"{child_path(path, field)}.", f"{child_path(path, field)}[")


def _text(field: FieldDescriptor, value: Any) -> str:
    """Format a field's value as in the config; None: its default."""
    if field.message_type is not None:
        return f"{field.name} {{...}}"
    if field.is_repeated:
        return f"{len(value)} of them"
    value = field.default_value if value is None else value
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else repr(value)


def contradictions(message: Message, path: str) -> Iterator[Problem]:
    """Find missing or contradictory fields in a message and its submessages.

    Submessages come first, so that they are valid before their parent uses them. Those that must be set are
    accepted if everything that they need has a default.
    """
    for location, part, rules in _parts(message, path, parts_first=True):
        for oneof in rules.oneofs:
            yield from missing_arm(part, oneof, location, refused=rules.refused)
        for name in rules.parts:
            if not part.HasField(name):
                yield from contradictions(getattr(part, name), f"{location}.{name}".lstrip("."))
        yield from wrong_fields(part, location, BY_FIELD_NAME)
        yield from wrong_fields(part, location, rules)
        yield from rules.check(part, location)


def range_problems(message: Message, path: str) -> Iterator[Problem]:
    """Find numbers out of range or not finite, and swapped bounds, also in submessages."""
    for location, part, rules in _parts(message, path):
        yield from _not_finite(location, part)
        yield from _out_of_range(location, part, rules.ranges)
        yield from _bounds(location, part)


def _not_finite(path: str, message: Message) -> Iterator[Problem]:
    for field, value in message.ListFields():
        if field.cpp_type != FieldDescriptor.CPPTYPE_FLOAT:
            continue
        for index, element in _elements(field, value):
            if not math.isfinite(element):
                text = f"expected a finite number of 32 bits, found {element}"
                yield Problem(path=child_path(path, field, index), message=text)


def _out_of_range(path: str, message: Message, own: Mapping[str, Range]) -> Iterator[Problem]:
    for field in cast(Descriptor, message.DESCRIPTOR).fields:
        if field.name in own:
            allowed = own[field.name]
        elif field.name in BY_FIELD_NAME.ranges and message.HasField(field.name):
            allowed = BY_FIELD_NAME.ranges[field.name]
        else:
            continue
        elements = _elements(field, getattr(message, field.name))
        wrong = next(
            (pair for pair in elements if math.isfinite(pair[1]) and not allowed.holds(pair[1])), None
        )
        if wrong is not None:
            text = f"expected {allowed.text}, found {wrong[1]:{',' if isinstance(wrong[1], int) else 'g'}}"
            yield Problem(path=child_path(path, field, wrong[0]), message=text)


def _elements(field: FieldDescriptor, value: Any) -> Iterator[tuple[int | None, float]]:
    """Yield the numbers of a field, with their index in a list."""
    if field.is_repeated:
        yield from enumerate(value)
    else:
        yield None, value


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


def _parts(message: Message, path: str, *, parts_first: bool = False) -> Iterator[tuple[str, Message, Rules]]:
    """Yield a message and every present submessage as `walk_messages` does, with the rules of each."""
    for location, part in walk_messages(message, path, parts_first=parts_first):
        yield location, part, rules_of(part.DESCRIPTOR)


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
    """Return the config, or refuse its `model` alone; ConfigError has the first problem's path."""
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
    """Fill in an unset number of classes without background, and check the model as `check_detector`."""
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


def check_metric_sets(names: Sequence[str]) -> None:
    """Refuse metric sets as for `eval_config.metrics_set`."""
    check_message(EvalConfig(metrics_set=names), "eval_config")


def check_evaluated_input(config: TrainEvalPipelineConfig) -> None:
    """Refuse a config without evaluation images (ConfigError), which the whole check accepts for training."""
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
            "expected a graph_rewriter block, which quantizes, found none; add"
            " `graph_rewriter { quantization { delay: 0 weight_bits: 8 activation_bits: 8 } }`",
            where="graph_rewriter",
        )


def check_message(message: Message, where: str) -> None:
    """Check one message alone; ConfigError for the first problem, with its field path as `where`."""
    raise_first(message_problems(message, where))


def raise_first(problems: Iterator[Problem]) -> None:
    """Raise the first problem, as a ConfigError with its field path as `where`."""
    for problem in problems:
        raise ConfigError(problem.message, where=problem.path)
