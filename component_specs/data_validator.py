"""Contract of DataValidator."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

from component_specs.annotations import (
    ANOMALIES,
    DATA_BLESSING,
    EXAMPLES,
    MODEL,
    PIPELINE_CONFIG,
    SCHEMA,
    STATISTICS,
    Input,
    Output,
)
from component_specs.codecs import JsonObject, PackedText
from component_specs.example_gen import BEAM_ARGS
from component_specs.trainer import OVERRIDES

Checks = Mapping[str, Mapping[str, Any]]
"""Check name to its `threshold` and `severity`."""
CHECKS = JsonObject(example='{"leakage": {"threshold": 0.01, "severity": "stop"}}', of_objects=True)

EARLIER_SPANS = JsonObject(example='{"6": "9f2c41d07b3e5a68"}')


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataValidatorJob:
    """Find problems in examples, and decide whether they may be used for training."""

    examples: Annotated[str, Input(EXAMPLES)]
    pipeline_config: Annotated[str, Input(PIPELINE_CONFIG)]
    statistics: Annotated[str, Output(STATISTICS)]
    schema: Annotated[str, Output(SCHEMA)]
    anomalies: Annotated[str, Output(ANOMALIES)]
    blessing: Annotated[str, Output(DATA_BLESSING)]
    checks: Annotated[Checks, CHECKS] = dataclasses.field(default_factory=dict)
    baseline: Annotated[str, Input(MODEL, optional=True)] = ""
    overrides: Annotated[Mapping[str, Any], OVERRIDES] = dataclasses.field(default_factory=dict)
    decode_images: str = "sample"
    near_duplicate_images: int = 1_000_000
    span_folder: str = ""
    earlier_spans: Annotated[Mapping[str, str], EARLIER_SPANS] = dataclasses.field(default_factory=dict)
    schema_text: Annotated[str, PackedText("a schema")] = ""
    distributed: bool = False
    beam_args: Annotated[tuple[str, ...], BEAM_ARGS] = ()
    code_version: str = ""
