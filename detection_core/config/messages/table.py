"""The rules of every message type of the schema: table.yaml, and the checks of the other modules."""

from collections.abc import Mapping
from typing import Any

from detection_core import allowed_values
from detection_core.allowed_values import Range, up_to
from detection_core.bounded.plain_yaml import module_table
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
from detection_core.detectors.rules import Check, Rules, message_name, no_problems

_CHECKS: Mapping[str, Check] = {
    **pipeline.CHECKS,
    **sizes.CHECKS,
    **detector_parts.CHECKS,
    **anchors.CHECKS,
    **training.CHECKS,
    **training_input.CHECKS,
    **evaluation.CHECKS,
    **graph_rewriter.CHECKS,
}
_TABLE = module_table(__file__)
_RANGES = vars(allowed_values) | {name: Range(**entry) for name, entry in _TABLE["ranges"].items()}


def _range(entry: str | list[float]) -> Range:
    found: Range = _RANGES[entry] if isinstance(entry, str) else up_to(entry[1], entry[0])
    return found


def _rules(name: str, *, ranges: Mapping[str, Any] | None = None, **rest: Any) -> Rules:
    limits = {field: _range(entry) for field, entry in (ranges or {}).items()}
    return Rules(ranges=limits, check=_CHECKS.get(name, no_problems), **rest)


RULES: Mapping[str, Rules] = {
    name: _rules(name, **_TABLE["messages"].get(name, {})) for name in {**_TABLE["messages"], **_CHECKS}
}
"""Message name, as in `Loss.EqualizationLoss`, to its rules; messages of a single family are not included."""

_NONE = Rules()


def rules_of(descriptor: Any) -> Rules:
    """Return the rules of a message type; empty for parts of refused messages."""
    name = message_name(descriptor)
    if name in RULES:
        return RULES[name]
    return next((family.rules[name] for family in families() if name in family.rules), _NONE)
