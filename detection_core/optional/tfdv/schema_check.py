"""Checks columns against a schema, and writes the files for TFX's components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

from detection_core.artifacts.data_statistics import (
    ANOMALIES_FILE,
    SCHEMA_FILE,
    STATISTICS_FILE,
    split_file,
    write_message,
)
from detection_core.optional.tfdv.feature_anomalies import find_anomalies
from detection_core.optional.tfdv.schema import infer_schema, parse_schema, unchecked_constraints
from detection_core.storage import files
from detection_core.validation.checks import FindingList

_ANOMALIES = 5
"""Maximum number of columns in a finding's message."""


def check_schema(
    features: Mapping[str, DatasetFeatureStatisticsList],
    schema_text: str,
    classes: Sequence[str],
    folders: tuple[str, str, str],
    findings: FindingList,
) -> None:
    """Write statistics of columns, the schema, and the anomalies of each split; add findings for anomalies.

    Without splits, nothing is written. An empty `schema_text` infers the schema from `train`, or from the
    first split if `train` is missing. `folders` are for statistics, schema and anomalies.

    Raises:
        ConfigError: if the text is no valid schema.
    """
    if schema_text:
        schema = parse_schema(schema_text, where="schema")
    elif features:
        schema = infer_schema(features.get("train", next(iter(features.values()))), classes)
    else:
        return
    statistics_dir, schema_dir, anomalies_dir = folders
    write_message(files.join(schema_dir, SCHEMA_FILE), schema)
    for split, found in features.items():
        write_message(split_file(statistics_dir, split, STATISTICS_FILE), found)
        anomalies = find_anomalies(found, schema)
        write_message(split_file(anomalies_dir, split, ANOMALIES_FILE), anomalies)
        texts = [f"{name} ({info.description})" for name, info in sorted(anomalies.anomaly_info.items())]
        if anomalies.HasField("dataset_anomaly_info"):
            texts.insert(0, anomalies.dataset_anomaly_info.description)
        more = f"; and {len(texts) - _ANOMALIES:,} more" if len(texts) > _ANOMALIES else ""
        findings.add_above(
            "schema",
            split,
            f"{split} does not fit the schema: {'; '.join(texts[:_ANOMALIES])}{more}; make the examples so"
            " that they fit, or change the schema",
            measured=len(texts),
            count=len(texts),
        )
    if unchecked := unchecked_constraints(schema):
        findings.partly("schema", f"of the schema, {', '.join(unchecked)} cannot be checked here")
