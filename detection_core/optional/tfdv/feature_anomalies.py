"""Finds and writes anomalies, where statistics violate a schema, as TensorFlow Data Validation reports them.

`find_anomalies` returns the message of TFDV 1.16's `validate_statistics(statistics, schema)`, with the same
types and texts. It checks the constraints that apply to columns of `tf.train.Example`. Only the text
differs for a feature whose domain no file can have. `schema.unchecked_constraints` lists the others.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import text_encoding
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2
from tensorflow_metadata.proto.v0 import statistics_pb2 as pb

from detection_core.artifacts.data_statistics import (
    ANOMALIES_FILE,
    SCHEMA_FILE,
    STATISTICS_FILE,
    split_file,
    write_message,
)
from detection_core.bounded.plain_yaml import module_table
from detection_core.optional.tfdv.feature_statistics import INVALID_TEXT
from detection_core.optional.tfdv.schema import (
    FEATURE_TYPES,
    common_stats,
    infer_schema,
    is_current,
    parse_schema,
    unchecked_constraints,
)
from detection_core.storage import files
from detection_core.validation.checks import FindingList

_INFO = anomalies_pb2.AnomalyInfo
_STATS = pb.FeatureNameStatistics
_FOR_FILES = (None, "image_domain", "natural_language_domain", "url_domain")
"""Valid domains of a column of files."""

Reason = tuple[int, str, str]
"""Type of the anomaly, short and full description."""
_TEXTS: Mapping[str, tuple[str, str]] = module_table(__file__)


def _reason(anomaly: str, **values: Any) -> Reason:
    """Return an anomaly of feature_anomalies.yaml, with values in its full description."""
    short, full = _TEXTS[anomaly]
    return _INFO.Type.Value(anomaly.partition(" ")[0]), short, full.format(**values)


def find_anomalies(
    statistics: pb.DatasetFeatureStatisticsList, schema: schema_pb2.Schema
) -> anomalies_pb2.Anomalies:
    """Return the violations of a schema that `schema.parse_schema` accepts."""
    result = anomalies_pb2.Anomalies()
    result.baseline.CopyFrom(schema)
    result.anomaly_name_format = anomalies_pb2.Anomalies.SERIALIZED_PATH
    [dataset] = statistics.datasets
    if not dataset.num_examples:
        return result
    known = {feature.name: feature for feature in schema.feature if is_current(feature)}
    skipped = {feature.name for feature in schema.feature} - known.keys()
    domains = {domain.name: domain for domain in schema.string_domain}
    seen = set()
    for found in dataset.features:
        name = found.path.step[0]
        seen.add(name)
        if name in known:
            _add(result.anomaly_info, name, _feature_reasons(known[name], found, dataset, domains))
        elif name not in skipped:
            _add(result.anomaly_info, name, [_reason("SCHEMA_NEW_COLUMN")])
    for name, feature in known.items():
        if name not in seen and _is_required(feature):
            _add(result.anomaly_info, name, [_reason("SCHEMA_MISSING_COLUMN")])
    if of_dataset := list(_example_count(dataset.num_examples, schema.dataset_constraints)):
        _describe(result.dataset_anomaly_info, of_dataset)
    return result


def _is_required(feature: schema_pb2.Feature) -> bool:
    return feature.presence.min_count > 0 or feature.presence.min_fraction > 0


def _add(infos: Any, name: str, found: Iterable[Reason]) -> None:
    if reasons := list(found):
        info = infos[name]
        info.path.step[:] = [name]
        _describe(info, reasons)


def _describe(info: Any, reasons: list[Reason]) -> None:
    """Add reasons to those of an anomaly, as a column may appear once per type."""
    for kind, short, full in reasons:
        info.reason.add(type=kind, short_description=short, description=full)
    info.severity = _INFO.ERROR
    info.short_description = info.reason[0].short_description if len(info.reason) == 1 else "Multiple errors"
    info.description = " ".join(reason.description for reason in info.reason)


def _feature_reasons(
    feature: schema_pb2.Feature, found: Any, dataset: Any, domains: dict[str, Any]
) -> Iterator[Reason]:
    common = common_stats(found)
    if not common.num_non_missing:
        if _is_required(feature):
            yield _reason("FEATURE_TYPE_NOT_PRESENT")
        return
    yield from _value_counts(feature, common)
    yield from _shape(feature, common)
    yield from _presence(feature.presence, common, dataset.num_examples)
    if FEATURE_TYPES.get(found.type) != feature.type:
        expected, got = schema_pb2.FeatureType.Name(feature.type), _STATS.Type.Name(found.type)
        yield _reason("UNEXPECTED_DATA_TYPE", expected=expected, found=got)
    kind = feature.WhichOneof("domain_info")
    if found.type == _STATS.BYTES and kind not in _FOR_FILES:
        yield _reason("DOMAIN_INVALID_FOR_TYPE", name=feature.name)
    elif kind in _DOMAINS:
        domain = domains[feature.domain] if kind == "domain" else getattr(feature, kind)
        yield from _DOMAINS[kind](feature, domain, found)
    if feature.HasField("unique_constraints"):
        yield from _unique(feature.unique_constraints, found)


def _value_counts(feature: schema_pb2.Feature, common: Any) -> Iterator[Reason]:
    kind = feature.WhichOneof("shape_type")
    if kind == "value_counts" and len(feature.value_counts.value_count) != 1:
        yield _reason("VALUE_NESTEDNESS_MISMATCH")
        return
    if kind == "value_count":
        wanted, where = feature.value_count, "."
    elif kind == "value_counts":
        wanted, where = feature.value_counts.value_count[0], " at nestedness level 0."
    else:
        return
    if wanted.HasField("min") and common.min_num_values < wanted.min:
        yield _reason("FEATURE_TYPE_LOW_NUMBER_VALUES", where=where)
    if wanted.HasField("max") and common.max_num_values > wanted.max:
        yield _reason("FEATURE_TYPE_HIGH_NUMBER_VALUES", where=where)


def _shape(feature: schema_pb2.Feature, common: Any) -> Iterator[Reason]:
    if not feature.HasField("shape"):
        return
    length = common.min_num_values if common.min_num_values == common.max_num_values else 0
    if length <= 0 or common.num_missing:
        yield _reason("INVALID_FEATURE_SHAPE varying")
    elif length != int(np.prod([dim.size for dim in feature.shape.dim])):
        yield _reason("INVALID_FEATURE_SHAPE other", length=length)


def _presence(presence: Any, common: Any, examples: int) -> Iterator[Reason]:
    least, found = presence.min_count, common.num_non_missing
    if presence.HasField("min_count") and found < least:
        yield _reason("FEATURE_TYPE_LOW_NUMBER_PRESENT", least=least, found=found)
    fraction = common.num_non_missing / examples if common.num_missing else 1.0
    if presence.HasField("min_fraction") and fraction < presence.min_fraction:
        least = np.float32(presence.min_fraction)
        yield _reason("FEATURE_TYPE_LOW_FRACTION_PRESENT", least=least, found=fraction)


def _texts(found: Any) -> list[tuple[str, float]]:
    """Return the values of a text column and their counts, in byte order."""
    buckets = found.string_stats.rank_histogram.buckets
    counts = {bucket.label: bucket.sample_count for bucket in reversed(buckets)}
    return sorted(counts.items(), key=lambda item: item[0].encode())


def _string_domain(feature: Any, domain: Any, found: Any) -> Iterator[Reason]:
    texts = _texts(found)
    if any(text == INVALID_TEXT for text, _ in texts):
        yield _reason("ENUM_TYPE_INVALID_UTF8")
        return
    allowed, total = set(domain.value), common_stats(found).tot_num_values
    missing = [(text, count) for text, count in texts if text not in allowed]
    constraints = feature.distribution_constraints
    most = 1.0 - constraints.min_domain_mass if constraints.HasField("min_domain_mass") else 0.0
    if missing and (sum(count for _, count in missing) / total > most or most == 0):
        escape: Callable[..., str] = text_encoding.CEscape  # its stub lacks texts
        shares = [(escape(text, as_utf8=True), 100 * int(count) / total) for text, count in missing]
        listed = ", ".join(f"{text} ({'<1' if each < 1 else f'~{int(each)}'}%)" for text, each in shares)
        yield _reason("ENUM_TYPE_UNEXPECTED_STRING_VALUES", listed=listed)


def _bool_domain(feature: Any, domain: Any, found: Any) -> Iterator[Reason]:
    if found.type == _STATS.STRING:
        allowed = [v for v in ("true_value", "false_value") if domain.HasField(v)]
        values = sorted({getattr(domain, v) for v in allowed}, key=str.encode)
        shown = '{"' + '", "'.join(values) + '"}' if values else "{}"
        for text, _ in _texts(found):
            if text not in values:
                yield _reason("BOOL_TYPE_UNEXPECTED_STRING", text=text, shown=shown)
                return
    elif found.type == _STATS.INT:
        least, most = found.num_stats.min, found.num_stats.max
        if least < 0:
            yield _reason("BOOL_TYPE_SMALL_INT", value=least)
        elif most > 1:
            yield _reason("BOOL_TYPE_BIG_INT", value=most)
    elif unexpected := _no_boolean(found.num_stats):
        yield _reason("BOOL_TYPE_UNEXPECTED_FLOAT", found=unexpected)


def _no_boolean(stats: Any) -> str:
    for value in (stats.min, stats.max):
        if value not in (0, 1):
            return f"Floats (such as {value:g}) not in {{0, 1}}"
    for histogram in stats.histograms:
        if histogram.num_nan:
            return "Floats (such as NaN) not in {0, 1}"
        if any(b.low_value > 0 and b.high_value < 1 and b.sample_count > 0 for b in histogram.buckets):
            return "Float values falling between 0 and 1"
    return ""


def _int_domain(feature: Any, domain: Any, found: Any) -> Iterator[Reason]:
    if found.type == _STATS.FLOAT:
        return
    if found.type == _STATS.STRING:
        numbers = []
        for text, _ in _texts(found):
            digits = re.fullmatch("[-+]?[0-9]{1,19}", text.strip())
            if not digits or not -(2**63) <= int(text) < 2**63:
                yield _reason("INT_TYPE_NOT_INT_STRING", text=text)
                return
            numbers.append(int(text))
        if not numbers:
            return
        least, most = min(numbers), max(numbers)
    else:
        least, most = int(found.num_stats.min), int(found.num_stats.max)
    if domain.HasField("min") and least < domain.min:
        yield _reason("INT_TYPE_SMALL_INT", value=least)
    if domain.HasField("max") and most > domain.max:
        yield _reason("INT_TYPE_BIG_INT", value=most)


def _float_domain(feature: Any, domain: Any, found: Any) -> Iterator[Reason]:
    numbers: list[float] = []
    if found.type == _STATS.INT:
        return
    if found.type == _STATS.FLOAT:
        stats = found.num_stats
        numbers, nans = [stats.min, stats.max], any(h.num_nan for h in stats.histograms)
    else:
        for text, _ in _texts(found):
            try:
                numbers.append(float(text.strip().replace("_", "?")))
            except ValueError:
                yield _reason("FLOAT_TYPE_STRING_NOT_FLOAT", text=text)
                return
        nans = bool(np.isnan(numbers).any())
    if domain.disallow_nan and nans:
        yield _reason("FLOAT_TYPE_HAS_NAN")
    if not numbers:
        return
    with np.errstate(over="ignore"):  # in the precision of the schema's limits
        least, most = float(np.float32(min(numbers))), float(np.float32(max(numbers)))
    if domain.HasField("min") and least < domain.min:
        yield _reason("FLOAT_TYPE_SMALL_FLOAT", value=least, bound=domain.min)
    if domain.HasField("max") and most > domain.max:
        yield _reason("FLOAT_TYPE_BIG_FLOAT", value=most, bound=domain.max)
    if domain.disallow_inf and (np.isinf(least) or np.isinf(most)):
        yield _reason("FLOAT_TYPE_HAS_INF")


def _image_domain(feature: Any, domain: Any, found: Any) -> Iterator[Reason]:
    largest, most = found.bytes_stats.max_num_bytes_int, domain.max_image_byte_size
    if domain.HasField("max_image_byte_size") and largest > most:
        yield _reason("MAX_IMAGE_BYTE_SIZE_EXCEEDED", found=largest, most=most)


_DOMAINS: dict[str, Callable[[Any, Any, Any], Iterator[Reason]]] = {
    "domain": _string_domain,
    "string_domain": _string_domain,
    "bool_domain": _bool_domain,
    "int_domain": _int_domain,
    "float_domain": _float_domain,
    "image_domain": _image_domain,
}
"""Kind of a domain to its check; other domains have no constraint that statistics of columns can violate."""


def _unique(constraints: Any, found: Any) -> Iterator[Reason]:
    if found.WhichOneof("stats") != "string_stats":
        yield _reason("FEATURE_TYPE_NO_UNIQUE")
        return
    unique = found.string_stats.unique
    if unique < constraints.min:
        yield _reason("FEATURE_TYPE_LOW_UNIQUE", least=constraints.min, found=unique)
    if unique > constraints.max:
        yield _reason("FEATURE_TYPE_HIGH_UNIQUE", most=constraints.max, found=unique)


def _example_count(examples: int, constraints: Any) -> Iterator[Reason]:
    if constraints.HasField("min_examples_count") and examples < constraints.min_examples_count:
        yield _reason("DATASET_LOW_NUM_EXAMPLES", examples=examples)
    if constraints.HasField("max_examples_count") and examples > constraints.max_examples_count:
        yield _reason("DATASET_HIGH_NUM_EXAMPLES", examples=examples)


_ANOMALIES = 5
"""Maximum number of columns in a finding's message."""


def check_schema(
    features: Mapping[str, pb.DatasetFeatureStatisticsList],
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
