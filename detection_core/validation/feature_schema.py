"""The schema of examples, inferred from their statistics, as a proto of TensorFlow Metadata.

The schema is inferred as TensorFlow Data Validation infers one, and tells beyond that what is known of the
Object Detection API's columns: the classes of the label map, and that sides of boxes lie between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_metadata.proto.v0 import statistics_pb2 as pb

from detection_core.data.example_columns import SIDES
from detection_core.validation.feature_anomalies import FEATURE_TYPES

CLASS_TEXT = "image/object/class/text"
_ENCODED = "image/encoded"
_DOMAIN_SIZE = 100
"""Most values of a column of texts that are listed in the schema."""
_NAMES = ("image/filename", "image/source_id", "image/key/sha256")
"""Columns whose texts name images: that there are few of them in a small data set says nothing."""


def infer_schema(statistics: pb.DatasetFeatureStatisticsList, classes: Sequence[str]) -> schema_pb2.Schema:
    """Return a schema that examples with these statistics fit.

    Args:
        statistics: of one data set.
        classes: names of the label map.
    """
    schema = schema_pb2.Schema()
    [dataset] = statistics.datasets
    for found in dataset.features:
        name, common = _name(found), _common(found)
        feature = schema.feature.add(name=name, type=FEATURE_TYPES[found.type])
        if common.num_non_missing == dataset.num_examples:
            feature.presence.min_fraction = 1.0
            feature.presence.min_count = 1
        if common.min_num_values == common.max_num_values == 1:
            feature.shape.dim.add(size=1)
        if name in SIDES:
            feature.float_domain.min, feature.float_domain.max = 0.0, 1.0
            feature.float_domain.disallow_nan = True
        elif name == _ENCODED:
            feature.image_domain.minimum_supported_image_fraction = 0.0
        elif name == CLASS_TEXT:
            feature.domain = name
            schema.string_domain.add(name=name, value=classes)
        elif _is_enumeration(name, found):
            feature.domain = name
            values = [bucket.label for bucket in found.string_stats.rank_histogram.buckets]
            schema.string_domain.add(name=name, value=sorted(values))
    return schema


def _is_enumeration(name: str, found: Any) -> bool:
    if found.WhichOneof("stats") != "string_stats" or name in _NAMES:
        return False
    unique, texts = found.string_stats.unique, found.string_stats.common_stats.tot_num_values
    return 0 < unique <= _DOMAIN_SIZE and unique < texts and not found.string_stats.invalid_utf8_count


def _name(found: Any) -> str:
    return str(found.path.step[0])


def _common(found: Any) -> Any:
    return getattr(found, found.WhichOneof("stats")).common_stats
