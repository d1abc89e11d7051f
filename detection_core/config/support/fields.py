"""What becomes of every field of the schema: used, without effect, or refused with a remedy.

A test walks the descriptors: a field that no table names fails it, and so does one that is said to be used
but that the module named does not read.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from detection_core.config.problems import Problem, child_path, walk_messages
from detection_core.config.support.entry import Support
from detection_core.config.support.model import MODEL_SUPPORT
from detection_core.config.support.preprocessing import PREPROCESSING_SUPPORT
from detection_core.config.support.running import RUNNING_SUPPORT

_logger = logging.getLogger(__name__)

SUPPORT: Mapping[str, Support] = {**MODEL_SUPPORT, **RUNNING_SUPPORT, **PREPROCESSING_SUPPORT}
"""Message name, as in `Loss.EqualizationLoss`, to what becomes of its fields."""


def support_name(message: Any) -> str:
    """Return a message descriptor's key in `SUPPORT`: its full name without the package."""
    return str(message.full_name).removeprefix(f"{message.file.package}.")


def find_refused(config: Message) -> Iterator[Problem]:
    """Find fields that ask for what nothing here can do; a field at its default asks for nothing."""
    for path, field, value, support in _asked(config):
        if field.name in support.refused:
            expected = "none" if field.message_type or field.is_repeated else _text(field, None)
            message = f"expected {expected}, found {_text(field, value)}: {support.refused[field.name]}"
            yield Problem(path=path, message=message)
        reasons = support.refused_values.get(field.name, {})
        if field.enum_type is not None and _text(field, value) in reasons:
            others = [v.name for v in field.enum_type.values if v.name not in reasons]
            found = _text(field, value)
            yield Problem(
                path=path, message=f"expected {' or '.join(others)}, found {found}: {reasons[found]}"
            )


def find_without_effect(config: Message) -> list[Problem]:
    """Return the fields that are set to something else than their default and change nothing here."""
    return [
        Problem(path=path, message=support.without_effect[field.name])
        for path, field, _, support in _asked(config)
        if field.name in support.without_effect
    ]


def warn_without_effect(config: Message, where: str = "") -> None:
    """Log one line that lists what has no effect here; once for the same line in a process."""
    found = find_without_effect(config)
    if found:
        listed = "; ".join(f"{field.path} ({field.message})" for field in found)
        _warn_once(f"{where or 'config'}: without effect here: {listed}")


@functools.cache
def _warn_once(line: str) -> None:
    _logger.warning("%s", line)


def _asked(config: Message) -> Iterator[tuple[str, FieldDescriptor, Any, Support]]:
    """Yield every field that is not at its default; nothing of what lies inside a refused field."""
    refused: tuple[str, ...] = ()
    for path, message in walk_messages(config):
        support = SUPPORT.get(support_name(message.DESCRIPTOR))
        if support is None or path.startswith(refused or ("\0",)):
            continue
        for field, value in message.ListFields():
            if field.message_type is None and not field.is_repeated and value == field.default_value:
                continue
            yield child_path(path, field), field, value, support
            if field.name in support.refused or field.name in support.without_effect:
                refused = (*refused, f"{child_path(path, field)}.", f"{child_path(path, field)}[")


def _text(field: FieldDescriptor, value: Any) -> str:
    """Say a field's value in the config's own words; None: its default."""
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
