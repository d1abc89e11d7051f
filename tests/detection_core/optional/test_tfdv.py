"""Features: statistics, schema and anomalies in the words of TFDV 1.16.1, which test_tfdv.py compares."""

import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from google.protobuf import text_format
from tensorflow.core.example.example_pb2 import Example
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from detection_core.errors import ConfigError
from detection_core.optional.tfdv import feature_statistics
from detection_core.optional.tfdv.feature_anomalies import find_anomalies
from detection_core.optional.tfdv.feature_statistics import FeatureCounter
from detection_core.optional.tfdv.schema import (
    CLASS_TEXT,
    infer_schema,
    is_current,
    parse_schema,
    read_schema_text,
    unchecked_constraints,
)
from tests.support.cases import cases, refused
from tests.support.features import bytes_feature, float_feature, int64_feature, serialise_features
from tests.support.made_examples import CLASSES, Made, encode

FITS = 'feature { name: "a" type: INT presence { min_fraction: 1 } int_domain { min: 0 } }'
YMIN = "image/object/bbox/ymin"
_TEXTS = bytes_feature([b"x", "y\né".encode()])
RECORDS = (
    {"a": int64_feature([1]), "f": float_feature([0.5, -1.0]), "t": _TEXTS}
    | {"new": int64_feature([3]), "image/encoded": bytes_feature([b"123"])},
    {"a": int64_feature([7]), "f": float_feature([math.nan, 9.0, math.inf]), "t": bytes_feature([b"x"])},
    {"a": int64_feature([-2]), "f": float_feature([])},
)
TOLD = yaml.safe_load((Path(__file__).parent / "data" / "anomalies.yaml").read_text(encoding="utf-8"))


def make_statistics(records):
    """Count the records as a pass over examples does."""
    counter = FeatureCounter()
    for number, record in enumerate(records):
        data = record if isinstance(record, bytes) else serialise_features(record)
        counter.add(Example.FromString(data).features.feature, number)
    return counter.statistics()


def test_a_schema_is_read_as_it_stands_and_what_is_not_checked_is_told(tmp_path):
    path = tmp_path / "schema.pbtxt"
    path.write_text(f"# curated\n{FITS}\n")
    assert read_schema_text(str(path)) == path.read_text()
    assert parse_schema(path.read_text(), "x").feature[0].int_domain.min == 0
    assert parse_schema("feature { name: 'a' deprecated: true }", "x").feature
    refused(ConfigError, r"none\.pbtxt", read_schema_text, str(tmp_path / "none.pbtxt"))
    text = (
        "feature { name: 'a' type: INT drift_comparator { infinity_norm { threshold: 0.1 } } }"
        " feature { name: 'b' type: BYTES in_environment: 'SERVING' group_presence { required: true } }"
        " feature { name: 'c' type: BYTES image_domain { minimum_supported_image_fraction: 0.5 } }"
        " dataset_constraints { num_examples_drift_comparator { min_fraction_threshold: 1 } }"
        " default_environment: 'TRAINING'"
    )
    of_a_feature = ["drift_comparator of a", "group_presence of b", "in_environment of b"]
    of_a_feature += ["minimum_supported_image_fraction of c"]
    expected = ["default_environment", *of_a_feature, "num_examples_drift_comparator"]
    assert unchecked_constraints(parse_schema(text, "x")) == expected
    assert unchecked_constraints(parse_schema(FITS, "x")) == []


@cases(
    ("", "expected a feature"), ("feature { nam: 'a' }", "nam"), ("feature { type: INT }", "expected a name"),
    ("feature { name: 'a' }", "feature 'a': expected a type"), (FITS + FITS, "found 'a' 2 times"),
    ("feature { name: 'a' type: INT presence { min_fraction: 2 } }", "from 0 to 1, found 2"),
    ("feature { name: 'a' type: INT value_count { min: 3 max: 2 } }", "found min 3, max 2"),
    ("feature { name: 'a' type: FLOAT int_domain { } }", "found it at FLOAT"),
    ("feature { name: 'a' type: BYTES domain: 'd' }", "expected the string_domain 'd'"),
    ("feature { name: 'a' type: INT distribution_constraints { } }", "beside a domain of texts"),
    ("feature { name: 'a' type: BYTES bool_domain {true_value: '1' false_value: '1'}}", "'1' for both"),
    ("\xff\x00", "schema"),
)  # fmt: skip
def test_a_schema_that_says_nothing_or_contradicts_itself_is_refused(*, text, expected):
    assert "schema.pbtxt" in str(refused(ConfigError, expected, parse_schema, text, "schema.pbtxt"))


def _count(*records):
    [dataset] = make_statistics(records).datasets
    return dataset, {feature.path.step[0]: feature for feature in dataset.features}


def test_numbers_are_summed_as_numpy_does(monkeypatch):
    monkeypatch.setattr(feature_statistics, "_SAMPLED", 64)
    random = np.random.default_rng(0)
    values = [random.normal(1e6, 3.0, random.integers(0, 5)).astype(np.float32) for _ in range(400)]
    values[3] = np.zeros(2, np.float32)
    dataset, found = _count(*({"x": float_feature(v.tolist())} for v in values))
    flat = np.concatenate(values).astype(np.float64)
    stats = found["x"].num_stats
    assert dataset.num_examples == 400 and stats.num_zeros == 2
    assert stats.mean == pytest.approx(flat.mean()) and stats.std_dev == pytest.approx(flat.std())
    assert (stats.min, stats.max) == (flat.min(), flat.max())
    # Of a sample of 64 of some 800.
    assert stats.median == pytest.approx(np.median(flat), rel=1e-5)
    common = stats.common_stats
    assert (common.num_non_missing, common.num_missing) == (400, 0)
    assert (common.min_num_values, common.max_num_values) == (0, 4)
    assert common.tot_num_values == len(flat) and common.avg_num_values == pytest.approx(len(flat) / 400)
    for histogram in stats.histograms:
        assert sum(bucket.sample_count for bucket in histogram.buckets) == pytest.approx(len(flat))


def test_missing_values_texts_and_files_are_counted_in_bounded_memory(monkeypatch):
    nan = {"x": float_feature([math.nan, 1.0, math.inf])}
    _, found = _count(nan, {"y": int64_feature([3])}, {"y": int64_feature([])})
    assert found["x"].num_stats.common_stats.num_missing == 2
    assert found["x"].num_stats.histograms[0].num_nan == 1 and found["x"].num_stats.max == math.inf
    assert found["y"].num_stats.common_stats.num_non_missing == 2 and found["y"].num_stats.mean == 3
    words = [b"b", b"a", b"b", b"\xff"]
    words_and_files = [(bytes_feature([w]), bytes_feature([b"x" * n])) for n, w in enumerate(words)]
    records = [{"t": word, "image/encoded": file} for word, file in words_and_files]
    _, found = _count(*records)
    texts = found["t"].string_stats
    assert (texts.top_values[0].value, texts.top_values[0].frequency) == ("b", 2)
    assert (texts.unique, texts.avg_length, texts.invalid_utf8_count) == (3, 1.0, 1)
    sizes = found["image/encoded"].bytes_stats
    assert (sizes.min_num_bytes, sizes.max_num_bytes_int, sizes.avg_num_bytes) == (0, 3, 1.5)
    dataset, _ = _count({"x": int64_feature([1])}, {"x": float_feature([1.0])})
    assert len(dataset.features) == 2
    monkeypatch.setattr(feature_statistics, "_MOST_VALUES", 10)
    monkeypatch.setattr(feature_statistics, "_MOST_COLUMNS", 20)
    records = [
        {f"x column {n}": int64_feature([1]), "t": bytes_feature([str(n).encode()])} for n in range(40)
    ]
    _, found = _count(*records)
    assert len(found) == 20
    assert found["t"].string_stats.unique == 0 and found["t"].string_stats.common_stats.num_non_missing == 40


def _record():
    columns = {"image/height": int64_feature([48]), YMIN: float_feature([0.1, 0.2])}
    columns |= {"image/format": bytes_feature([b"jpeg"]), "image/source_id": bytes_feature([b"a"])}
    return serialise_features(columns | {CLASS_TEXT: bytes_feature([b"cat", b"cat"])})


SCHEMA = infer_schema(make_statistics([_record(), _record()]), CLASSES)


def test_the_schema_tells_types_presence_and_domains_and_fits_its_examples():
    features = {feature.name: feature for feature in SCHEMA.feature}
    assert features["image/height"].type == schema_pb2.INT and features["image/height"].shape.dim[0].size == 1
    assert features[YMIN].float_domain.max == 1.0 and not features[YMIN].shape.dim
    assert all(feature.presence.min_fraction == 1.0 for feature in SCHEMA.feature)
    domains = {domain.name: list(domain.value) for domain in SCHEMA.string_domain}
    # The classes are those of the label map: one that has no object yet belongs to them.
    assert domains == {"image/format": ["jpeg"], CLASS_TEXT: ["cat", "dog"]}
    found = make_statistics([encode(Made(boxes=(), classes=()), 0), encode(Made(), 1)])
    assert not find_anomalies(found, infer_schema(found, CLASSES)).anomaly_info


def _found(feature, more=""):
    """The anomalies of the one column that a schema tells of."""
    schema = text_format.Parse(f"feature {{ {feature} }} {more}", schema_pb2.Schema())
    found = find_anomalies(make_statistics(RECORDS), schema)
    assert found.baseline == schema
    info = found.anomaly_info[schema.feature[0].name]
    assert not info.reason or info.severity == anomalies_pb2.AnomalyInfo.ERROR
    return info


@cases(*TOLD)
def test_what_does_not_fit_is_told_as_tfdv_tells_it(*, case):
    info = _found(case["feature"])
    reasons = [anomalies_pb2.AnomalyInfo.Type.Name(reason.type) for reason in info.reason]
    assert [*reasons, info.short_description] == case["told"] and info.description == case["text"]


@cases(
    "name: 'gone' type: INT", "name: 'gone' type: INT presence { min_count: 1 } lifecycle_stage: PLANNED",
    "name: 'a' type: BYTES deprecated: true",
    "name: 'a' type: INT int_domain { min: -2 max: 7 } presence { min_count: 3 min_fraction: 1 }",
    "name: 'a' type: INT shape { }",
    "name: 't' type: BYTES string_domain { value: 'x' } distribution_constraints {min_domain_mass: 0.6}",
)  # fmt: skip
def test_what_fits_is_not_told(*, feature):
    assert not _found(feature).reason


def test_reasons_add_up_for_features_that_are_current_and_for_the_number_of_examples():
    info = _found("name: 'image/encoded' type: BYTES string_domain { value: 'x' }")
    said = 'Data is marked as BYTES with incompatible domain_info: name: "image/encoded"\n'
    assert info.description == said
    domain = "string_domain { name: 'd' value: 'x' }"
    info = _found("name: 't' type: BYTES domain: 'd' presence { min_fraction: 1 }", domain)
    assert len(info.reason) == 2 and info.short_description == "Multiple errors"
    assert info.description == " ".join(reason.description for reason in info.reason)
    found = find_anomalies(make_statistics(RECORDS), schema_pb2.Schema())
    assert sorted(found.anomaly_info) == ["a", "f", "image/encoded", "new", "t"]
    assert is_current(schema_pb2.Feature()) and is_current(schema_pb2.Feature(lifecycle_stage="BETA"))
    assert not is_current(schema_pb2.Feature(lifecycle_stage="ALPHA"))
    schema = text_format.Parse("dataset_constraints { min_examples_count: 4 }", schema_pb2.Schema())
    found = find_anomalies(make_statistics(RECORDS), schema).dataset_anomaly_info
    assert found.description == "The dataset has 3 examples, which is fewer than expected."
    assert not find_anomalies(FeatureCounter().statistics(), schema_pb2.Schema()).anomaly_info
