"""The schema of examples: inferred from their statistics or read from a file, and validated.

It is a proto of TensorFlow Metadata, inferred as in TensorFlow Data Validation. The label map's
classes, and the range 0 to 1 of a box's sides, are added for the Object Detection API's columns.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_metadata.proto.v0 import statistics_pb2 as pb

from detection_core.config.text.text_proto import parse_message
from detection_core.data.records import SIDES
from detection_core.errors import ConfigError, shorten
from detection_core.storage import files

FEATURE_TYPES = {
    pb.FeatureNameStatistics.INT: schema_pb2.INT,
    pb.FeatureNameStatistics.FLOAT: schema_pb2.FLOAT,
    pb.FeatureNameStatistics.STRING: schema_pb2.BYTES,
    pb.FeatureNameStatistics.BYTES: schema_pb2.BYTES,
}
"""Type of statistics to type of a feature."""

CLASS_TEXT = "image/object/class/text"
_ENCODED = "image/encoded"
_DOMAIN_SIZE = 100
"""Maximum number of values of a text column that the schema lists."""
_NAMES = ("image/filename", "image/source_id", "image/key/sha256")
"""Columns whose texts name images: a small number of them in a small data set means nothing."""


def infer_schema(statistics: pb.DatasetFeatureStatisticsList, classes: Sequence[str]) -> schema_pb2.Schema:
    """Infer a schema from statistics."""
    schema = schema_pb2.Schema()
    [dataset] = statistics.datasets
    for found in dataset.features:
        name, common = found.path.step[0], common_stats(found)
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


def common_stats(found: Any) -> Any:
    """Return what statistics of every type of column have."""
    return getattr(found, found.WhichOneof("stats")).common_stats


_NOT_CURRENT = (
    schema_pb2.PLANNED,
    schema_pb2.ALPHA,
    schema_pb2.DEPRECATED,
    schema_pb2.DEBUG_ONLY,
    schema_pb2.DISABLED,
)
_ANY = (schema_pb2.INT, schema_pb2.FLOAT, schema_pb2.BYTES, schema_pb2.STRUCT)
_TYPES: Mapping[str, tuple[int, ...]] = {
    "domain": (schema_pb2.BYTES,),
    "string_domain": (schema_pb2.BYTES,),
    "bool_domain": (schema_pb2.INT, schema_pb2.FLOAT, schema_pb2.BYTES),
    "int_domain": (schema_pb2.INT, schema_pb2.BYTES),
    "float_domain": (schema_pb2.FLOAT, schema_pb2.BYTES),
    "image_domain": (schema_pb2.BYTES,),
    "mid_domain": (schema_pb2.BYTES,),
    "url_domain": (schema_pb2.BYTES,),
    "natural_language_domain": (schema_pb2.INT, schema_pb2.BYTES),
    "time_domain": (schema_pb2.INT, schema_pb2.BYTES),
    "struct_domain": (schema_pb2.STRUCT,),
}
"""Kind of a domain to its valid feature types."""
_TEXTS = ("domain", "string_domain")
_NOT_CHECKED = (
    "group_presence", "skew_comparator", "drift_comparator", "in_environment", "not_in_environment",
    "struct_domain", "natural_language_domain", "audio_domain", "video_domain", "content_chunk_domain",
    "mid_domain", "url_domain", "time_domain", "time_of_day_domain",
)  # fmt: skip


def read_schema_text(path: str) -> str:
    """Return a schema file's text; ConfigError as of `parse_schema`, or if the file cannot be read."""
    text = files.read_user_text(path, what="schema")
    parse_schema(text, where=path)
    return text


def parse_schema(text: str, where: str) -> schema_pb2.Schema:
    """Parse a `tensorflow.metadata.v0.Schema` as text, which DataValidator and TFX's SchemaGen write.

    Raises:
        ConfigError: if the text is malformed, with line and field, or contradictory.
    """
    schema: schema_pb2.Schema = parse_message(text, schema_pb2.Schema, where=where)
    for fault in _faults(schema):
        raise ConfigError(fault, where=where)
    return schema


def _faults(schema: schema_pb2.Schema) -> Iterator[str]:
    if not schema.feature:
        yield "expected a feature { name: ... } for each column of the examples, found none"
    names = Counter(feature.name for feature in schema.feature)
    domains = Counter(domain.name for domain in schema.string_domain)
    for kind, counted in (("feature", names), ("string_domain", domains)):
        for name, count in counted.items():
            if count > 1:
                yield f"expected each {kind} once, found {shorten(name)} {count} times; leave one"
    for feature in schema.feature:
        if is_current(feature):
            for fault in _feature_faults(feature, set(domains)):
                yield f"feature {shorten(feature.name)}: {fault}"


def _feature_faults(feature: schema_pb2.Feature, domains: set[str]) -> Iterator[str]:
    if not feature.name:
        yield "expected a name, found none"
    if feature.type == schema_pb2.TYPE_UNKNOWN:
        yield "expected a type, INT, FLOAT or BYTES, found none"
    if not 0 <= feature.presence.min_fraction <= 1:
        yield f"expected presence.min_fraction from 0 to 1, found {feature.presence.min_fraction:g}"
    counts = [feature.value_count] if feature.HasField("value_count") else feature.value_counts.value_count
    for count in counts:
        if count.min < 0 or (count.HasField("max") and count.max < count.min):
            yield f"expected a value_count from 0 up, found min {count.min}, max {count.max}"
    kind = feature.WhichOneof("domain_info")
    if feature.type not in _TYPES.get(kind or "", _ANY):
        found = schema_pb2.FeatureType.Name(feature.type)
        yield f"expected a {kind} at a type that has one, found it at {found}"
    if kind == "domain" and feature.domain not in domains:
        yield f"expected the string_domain {shorten(feature.domain)} in the schema, found none of that name"
    if feature.HasField("distribution_constraints") and kind not in _TEXTS:
        yield "expected distribution_constraints beside a domain of texts, found them without"
    bools = feature.bool_domain
    if kind == "bool_domain" and bools.HasField("true_value") and bools.true_value == bools.false_value:
        yield f"expected two values of the bool_domain, found {shorten(bools.true_value)} for both"


def unchecked_constraints(schema: schema_pb2.Schema) -> list[str]:
    """Describe the constraints of a schema that statistics of one data set's columns cannot check."""
    found = {
        f"{field.name} of {feature.name}"
        for feature in schema.feature
        for field, _ in feature.ListFields()
        if field.name in _NOT_CHECKED
    }
    found |= {
        f"minimum_supported_image_fraction of {feature.name}"
        for feature in schema.feature
        if feature.image_domain.minimum_supported_image_fraction > 0
    }
    found |= {field.name for field, _ in schema.ListFields() if field.name in _NOT_CHECKED_OF_SCHEMA}
    found |= {
        field.name for field, _ in schema.dataset_constraints.ListFields() if "comparator" in field.name
    }
    return sorted(found)


_NOT_CHECKED_OF_SCHEMA = ("sparse_feature", "weighted_feature", "default_environment")


def is_current(feature: schema_pb2.Feature) -> bool:
    """Return whether a feature is checked: it is neither planned, experimental nor deprecated."""
    return not feature.deprecated and feature.lifecycle_stage not in _NOT_CURRENT
