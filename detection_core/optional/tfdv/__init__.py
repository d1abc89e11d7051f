"""Statistics, schema and anomalies of columns, compatible with TensorFlow Data Validation."""

from detection_core.optional.tfdv.feature_statistics import FeatureCounter
from detection_core.optional.tfdv.schema import read_schema_text
from detection_core.optional.tfdv.schema_check import check_schema

__all__ = ["FeatureCounter", "check_schema", "read_schema_text"]
