"""Refused fields, and fields that have no effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from detection_core.config.messages.table import rules_of
from detection_core.config.problems import child_path, walk_messages
from detection_core.detectors.family import find_family
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem

_logger = logging.getLogger(__name__)


def find_refused(config: Message, where: str = "") -> Iterator[Problem]:
    """Find fields that request unsupported features; a default value requests nothing."""
    for path, field, value, rules in _asked(config, where):
        if field.name in rules.refused and not _is_family(config, path):
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


def _is_family(config: Message, path: str) -> bool:
    """Tell whether a refused field is the arm of a model with a registered family."""
    model = getattr(config, "model", None)
    return path.rpartition(".")[0] == "model" and model is not None and find_family(model) is not None


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
    for path, message in walk_messages(config, where):
        rules = rules_of(message.DESCRIPTOR)
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
