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
from component_specs.trainer import OVERRIDES

Checks = Mapping[str, Mapping[str, Any]]
"""Check name to its `threshold` and `severity`."""
CHECKS = JsonObject(example='{"leakage": {"threshold": 0.01, "severity": "stop"}}', of_objects=True)

EARLIER_SPANS = JsonObject(example='{"6": "9f2c41d07b3e5a68"}')


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataValidatorJob:
    """Find problems in examples, and decide whether they may be used for training.

    Attributes:
        examples: output of ExampleGen.
        pipeline_config: folder with pipeline.config, from ConfigGen; defines the network's input.
        baseline: the deployed detector, with statistics of its training data.
        overrides: field path of the pipeline.config to the value that Trainer sets.
        checks: check to changed defaults: `threshold`, and `severity`, which is `off`, `warn`
            or `stop`; see `detection_core.validation.checks`.
        decode_images: which images are fully decoded: `sample`, `all` or `none`, as in ExampleGen.
        near_duplicate_images: maximum number of images for the near-duplicate search. It decodes all images,
            JPEG files at a fraction of their size.
        schema_text: text of a `tensorflow.metadata.v0.Schema` that the columns of every split must fit;
            empty: inferred from the split `train`.
        span_folder: durable folder for statistics of spans, for comparison in later runs;
            empty: not stored.
        earlier_spans: number or date of each earlier span, oldest first, to a digest of its statistics in
            `span_folder`. The newest span of the examples is compared with them.
        code_version: fingerprint of the code; part of the cache key.
        statistics: folder to fill: box_statistics.json, and `Split-NAME/FeatureStats.pb` as TFX's
            StatisticsGen writes it.
        schema: folder to fill: schema.pbtxt, given or inferred.
        anomalies: folder to fill: findings.json, pictures/, and `Split-NAME/SchemaDiff.pb` as TFX's
            ExampleValidator writes it.
        blessing: folder to fill with `BLESSED` or `NOT_BLESSED`, and reasons.json.
    """

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
    code_version: str = ""
