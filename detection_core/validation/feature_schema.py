"""The schema of examples, and what of other examples does not fit it, as protos of TensorFlow Metadata.

The schema is inferred as TensorFlow Data Validation infers one, and tells beyond that what is known of the
Object Detection API's columns: the classes of the label map, and that sides of boxes lie between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2
from tensorflow_metadata.proto.v0 import statistics_pb2 as pb

from detection_core.data.example_columns import SIDES

CLASS_TEXT = "image/object/class/text"
_ENCODED = "image/encoded"
_DOMAIN_SIZE = 100
"""Most values of a column of texts that are listed in the schema."""
_SHOWN = 5
_TYPES = {
    pb.FeatureNameStatistics.INT: schema_pb2.INT,
    pb.FeatureNameStatistics.FLOAT: schema_pb2.FLOAT,
    pb.FeatureNameStatistics.STRING: schema_pb2.BYTES,
    pb.FeatureNameStatistics.BYTES: schema_pb2.BYTES,
}
_NAMES = ("image/filename", "image/source_id", "image/key/sha256")
"""Columns whose texts name images: that there are few of them in a small data set says nothing."""
_NOT = anomalies_pb2.AnomalyInfo

Anomaly = tuple[str, int, str]
"""Column, type of the anomaly, and what was found."""


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
        feature = schema.feature.add(name=name, type=_TYPES[found.type])
        if common.num_non_missing == dataset.num_examples:
            feature.presence.min_fraction = 1.0
            feature.presence.min_count = 1
        if common.min_num_values == common.max_num_values == 1:
            feature.shape.dim.add(size=1)
        if name in SIDES:
            feature.float_domain.min, feature.float_domain.max = 0.0, 1.0
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


def find_anomalies(
    statistics: pb.DatasetFeatureStatisticsList, schema: schema_pb2.Schema
) -> anomalies_pb2.Anomalies:
    """Return what does not fit a schema.

    Args:
        statistics: of one data set.
        schema: that it is compared with.
    """
    result = anomalies_pb2.Anomalies()
    result.baseline.CopyFrom(schema)
    result.anomaly_name_format = anomalies_pb2.Anomalies.SERIALIZED_PATH
    [dataset] = statistics.datasets
    for name, kind, text in _anomalies(dataset, schema):
        info = result.anomaly_info[name]
        info.path.step[:] = [name]
        info.severity = anomalies_pb2.AnomalyInfo.ERROR
        info.reason.add(type=kind, short_description=_short(kind), description=text)
        info.short_description = _short(kind) if len(info.reason) == 1 else "Multiple errors"
        info.description = "; ".join(reason.description for reason in info.reason)
    return result


def _short(kind: int) -> str:
    return str(_NOT.Type.Name(kind)).replace("_", " ").capitalize()


def _anomalies(dataset: Any, schema: schema_pb2.Schema) -> Iterator[Anomaly]:
    known = {feature.name: feature for feature in schema.feature}
    domains = {domain.name: set(domain.value) for domain in schema.string_domain}
    seen = set()
    for found in dataset.features:
        name = _name(found)
        feature = known.get(name)
        if feature is None:
            yield name, _NOT.SCHEMA_NEW_COLUMN, "a column that the schema does not have"
            continue
        seen.add(name)
        if _TYPES[found.type] != feature.type:
            yield name, _WRONG_TYPE[feature.type], f"expected {_type(feature.type)}, found others"
            continue
        yield from _presence(name, feature, found, dataset.num_examples)
        yield from _values(name, feature, found, domains.get(feature.domain))
    for name in sorted(known.keys() - seen):
        if known[name].presence.min_count and dataset.num_examples:
            yield name, _NOT.SCHEMA_MISSING_COLUMN, "a column of the schema is in no example"


_WRONG_TYPE = {
    schema_pb2.INT: _NOT.INT_TYPE_INT_EXPECTED,
    schema_pb2.FLOAT: _NOT.FLOAT_TYPE_NOT_FLOAT,
    schema_pb2.BYTES: _NOT.ENUM_TYPE_BYTES_NOT_STRING,
}


def _type(kind: int) -> str:
    return str(schema_pb2.FeatureType.Name(kind)).lower()


def _presence(name: str, feature: Any, found: Any, examples: int) -> Iterator[Anomaly]:
    common = _common(found)
    if examples and common.num_non_missing < feature.presence.min_fraction * examples:
        missing = examples - common.num_non_missing
        yield name, _NOT.FEATURE_TYPE_LOW_FRACTION_PRESENT, f"missing in {missing:,} of {examples:,} examples"
    if feature.shape.dim and common.num_non_missing:
        size = feature.shape.dim[0].size
        if common.min_num_values < size:
            text = f"expected {size} value in each example, found {common.min_num_values}"
            yield name, _NOT.FEATURE_TYPE_LOW_NUMBER_VALUES, text
        if common.max_num_values > size:
            text = f"expected {size} value in each example, found {common.max_num_values}"
            yield name, _NOT.FEATURE_TYPE_HIGH_NUMBER_VALUES, text


def _values(name: str, feature: Any, found: Any, domain: set[str] | None) -> Iterator[Anomaly]:
    if domain is not None and found.WhichOneof("stats") == "string_stats":
        values = [bucket.label for bucket in found.string_stats.rank_histogram.buckets]
        unexpected = [value for value in values if value not in domain]
        if unexpected:
            text = f"{len(unexpected):,} unexpected values: {_list(unexpected)}"
            yield name, _NOT.ENUM_TYPE_UNEXPECTED_STRING_VALUES, text
    if feature.HasField("float_domain") and _common(found).tot_num_values:
        least, most = found.num_stats.min, found.num_stats.max
        if least < feature.float_domain.min:
            yield name, _NOT.FLOAT_TYPE_SMALL_FLOAT, f"expected 0 or more, found {least:g}"
        if most > feature.float_domain.max:
            yield name, _NOT.FLOAT_TYPE_BIG_FLOAT, f"expected 1 or less, found {most:g}"
        if any(histogram.num_nan for histogram in found.num_stats.histograms):
            yield name, _NOT.FLOAT_TYPE_HAS_NAN, "expected numbers, found NaN"


def _list(values: Iterable[str]) -> str:
    some = list(values)
    more = f" and {len(some) - _SHOWN:,} more" if len(some) > _SHOWN else ""
    return ", ".join(some[:_SHOWN]) + more


def _name(found: Any) -> str:
    return str(found.path.step[0])


def _common(found: Any) -> Any:
    return getattr(found, found.WhichOneof("stats")).common_stats
