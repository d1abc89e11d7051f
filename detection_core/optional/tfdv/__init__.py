"""Statistics, schema and anomalies of columns, compatible with TensorFlow Data Validation."""

from detection_core.optional.tfdv.feature_anomalies import check_schema
from detection_core.optional.tfdv.feature_statistics import FeatureCounter
from detection_core.optional.tfdv.schema import read_schema_text

__all__ = ["FeatureCounter", "check_schema", "read_schema_text"]
