"""The rules of every message type of the schema."""

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
from detection_core.detectors.rules import Rules, message_name

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


def rules_of(descriptor: Any) -> Rules:
    """Return the rules of a message type; empty for parts of refused messages."""
    name = message_name(descriptor)
    if name in RULES:
        return RULES[name]
    return next((family.rules[name] for family in families() if name in family.rules), _NONE)
