"""The rules of every message type of the schema: table.yaml, and the checks of the other modules."""

from collections.abc import Mapping
from typing import Any

from detection_core.config.messages import (
    anchors,
    detector_parts,
    evaluation,
    pipeline,
    training,
    training_input,
)
from detection_core.detectors.family import families
from detection_core.detectors.rules import Check, Rules, message_name, read_rules

_CHECKS: Mapping[str, Check] = {
    **pipeline.CHECKS,
    **detector_parts.CHECKS,
    **anchors.CHECKS,
    **training.CHECKS,
    **training_input.CHECKS,
    **evaluation.CHECKS,
}

_READ = read_rules(__file__, _CHECKS)
BY_FIELD_NAME = _READ.pop("*")
"""Rules of fields that have the same meaning in every message."""
RULES: Mapping[str, Rules] = _READ
"""Message name, as in `Loss.EqualizationLoss`, to its rules; messages of a single family are not included."""

_NONE = Rules()


def rules_of(descriptor: Any) -> Rules:
    """Return the rules of a message type; empty for parts of refused messages."""
    name = message_name(descriptor)
    if name in RULES:
        return RULES[name]
    return next((family.rules[name] for family in families() if name in family.rules), _NONE)
