"""The rules of every message type of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from detection_core.config.messages import (
    anchors,
    detector_parts,
    evaluation,
    graph_rewriter,
    pipeline,
    sizes,
    training,
    training_input,
)
from detection_core.detectors.family import families
from detection_core.detectors.rules import Rules

RULES: Mapping[str, Rules] = {
    **pipeline.RULES,
    **sizes.RULES,
    **detector_parts.RULES,
    **anchors.RULES,
    **training.RULES,
    **training_input.RULES,
    **evaluation.RULES,
    **graph_rewriter.RULES,
}
"""Message name, as in `Loss.EqualizationLoss`, to its rules; messages of a single family are not included."""

_NONE = Rules()


def all_rules() -> dict[str, Rules]:
    """Return the rules of every message, including those of the families."""
    return {**RULES, **{name: rules for family in families() for name, rules in family.rules.items()}}


def message_name(descriptor: Any) -> str:
    """Return a message descriptor's key in `RULES`: its full name without the package."""
    return str(descriptor.full_name).removeprefix(f"{descriptor.file.package}.")


def rules_of(descriptor: Any) -> Rules:
    """Return the rules of a message type; empty for parts of refused messages."""
    name = message_name(descriptor)
    if name in RULES:
        return RULES[name]
    return next((family.rules[name] for family in families() if name in family.rules), _NONE)
