"""Contract of DataValidator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from component_specs.annotations import (
    ANOMALIES,
    DATA_BLESSING,
    EXAMPLES,
    STATISTICS,
    Input,
    Output,
)
from component_specs.codecs import JsonObject

Checks = Mapping[str, Mapping[str, Any]]
"""Check to its `threshold` and `severity`."""
CHECKS = JsonObject(example='{"leakage": {"threshold": 0.01, "severity": "stop"}}', of_objects=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataValidatorJob:
    """Look for what is wrong with examples and decide whether they may be trained on.

    Attributes:
        examples: what ExampleGen wrote.
        checks: check to what differs from its defaults: `threshold`, and `severity`, which is `off`, `warn`
            or `stop`; see `detection_core.validation.checks`.
        code_version: fingerprint of the code; only there to key the cache.
        statistics: folder to fill: box_statistics.json.
        anomalies: folder to fill: findings.json, pictures/.
        blessing: folder to fill with `BLESSED` or `NOT_BLESSED`, and reasons.json.
    """

    examples: Annotated[str, Input(EXAMPLES)]
    statistics: Annotated[str, Output(STATISTICS)]
    anomalies: Annotated[str, Output(ANOMALIES)]
    blessing: Annotated[str, Output(DATA_BLESSING)]
    checks: Annotated[Checks, CHECKS] = dataclasses.field(default_factory=dict)
    code_version: str = ""
