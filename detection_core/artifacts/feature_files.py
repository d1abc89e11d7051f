"""Statistics, schema and anomalies of examples, as TFX's components name and lay out their files."""

from __future__ import annotations

from typing import Any

from detection_core.storage import files

STATISTICS_FILE = "FeatureStats.pb"
"""Of a split, in a folder of its own: a DatasetFeatureStatisticsList, binary."""
SCHEMA_FILE = "schema.pbtxt"
"""A Schema, as text."""
ANOMALIES_FILE = "SchemaDiff.pb"
"""Of a split, in a folder of its own: an Anomalies, binary."""


def split_file(folder: str, split: str, name: str) -> str:
    """Return the path of a split's file."""
    return files.join(folder, f"Split-{split}", name)


def write_message(path: str, message: Any) -> None:
    """Write a message, as text where its name ends with `.pbtxt`; equal messages give equal bytes."""
    from google.protobuf import text_format

    if path.endswith(".pbtxt"):
        files.write_text(path, text_format.MessageToString(message, as_utf8=True))
    else:
        files.write_bytes(path, message.SerializeToString(deterministic=True))
