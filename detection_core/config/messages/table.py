"""The rules of every message type of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from detection_core.config.messages import (
    anchors,
    augmentations,
    box_coders,
    box_predictors,
    detectors,
    evaluation,
    graph_rewriter,
    hyperparams,
    image_resizers,
    input_reader,
    losses,
    matchers,
    monitoring,
    optimizers,
    pipeline,
    post_processing,
    recipe,
    registered,
    training,
    validation,
)
from detection_core.detectors.family import families
from detection_core.detectors.rules import Rules

RULES: Mapping[str, Rules] = {
    **pipeline.RULES,
    **detectors.RULES,
    **hyperparams.RULES,
    **image_resizers.RULES,
    **box_predictors.RULES,
    **anchors.RULES,
    **box_coders.RULES,
    **matchers.RULES,
    **losses.RULES,
    **post_processing.RULES,
    **training.RULES,
    **validation.RULES,
    **monitoring.RULES,
    **optimizers.RULES,
    **augmentations.RULES,
    **evaluation.RULES,
    **input_reader.RULES,
    **graph_rewriter.RULES,
    **registered.RULES,
    **recipe.RULES,
}
"""Name of a message that no single family has, as in `Loss.EqualizationLoss`, to its rules."""

_NONE = Rules()


def all_rules() -> dict[str, Rules]:
    """Return the rules of every message, those of the families included."""
    return {**RULES, **{name: rules for family in families() for name, rules in family.rules.items()}}


def message_name(descriptor: Any) -> str:
    """Return a message descriptor's key in `RULES`: its full name without the package."""
    return str(descriptor.full_name).removeprefix(f"{descriptor.file.package}.")


def rules_of(descriptor: Any) -> Rules:
    """Return the rules of a message type; those of parts of refused messages are empty."""
    name = message_name(descriptor)
    if name in RULES:
        return RULES[name]
    return next((family.rules[name] for family in families() if name in family.rules), _NONE)
