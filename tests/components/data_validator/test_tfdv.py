"""TensorFlow Data Validation reads what DataValidator writes, and comes to the same numbers itself."""

import hashlib
import os
import re
import sys
import types

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.example.example_pb2 import Example
from tensorflow_metadata.proto.v0 import anomalies_pb2

from components.data_validator.run import run
from detection_core.artifacts.data_statistics import ANOMALIES_FILE, SCHEMA_FILE, STATISTICS_FILE, split_file
from detection_core.errors import ConfigError
from detection_core.optional.tfdv.feature_anomalies import find_anomalies
from detection_core.optional.tfdv.feature_statistics import FeatureCounter
from detection_core.optional.tfdv.schema import CLASS_TEXT, parse_schema
from detection_core.storage import files
from tests.components.data_validator.jobs import BOTH, job_of
from tests.support.features import bytes_feature, float_feature, int64_feature, serialise_features
from tests.support.made_examples import Made

pytestmark = [pytest.mark.tfx, pytest.mark.slow]


@pytest.fixture(scope="module")
def tfdv():
    """TFDV 1.16.1; it needs farmhash to divide features over workers, and to find skewed examples."""
    stand_in = types.ModuleType("farmhash")
    stand_in.fingerprint32 = lambda text: int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    before = sys.modules.setdefault("farmhash", stand_in)
    module = pytest.importorskip("tensorflow_data_validation")
    yield module
    if before is stand_in:
        del sys.modules["farmhash"]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    several = [Made(boxes=((0.0, 0.1 * n, 0.5, 0.9),) * (n % 3), classes=("dog",) * 2) for n in range(9)]
    job = job_of(tmp_path_factory.mktemp("tfdv"), {"train": [BOTH] * 20 + several, "eval": [BOTH] * 3})
    run(job)
    return job


def _by_name(statistics):
    [dataset] = statistics.datasets
    return dataset, {feature.path.step[0]: feature for feature in dataset.features}


def test_the_numbers_are_those_of_tfdv(tfdv, job):
    records = os.path.join(job.examples, "Split-train", "*.tfrecord")
    theirs, expected = _by_name(tfdv.generate_statistics_from_tfrecord(records))
    ours, found = _by_name(tfdv.load_stats_binary(split_file(job.statistics, "train", STATISTICS_FILE)))
    assert ours.num_examples == theirs.num_examples == 29 and found.keys() == expected.keys()
    for name, feature in expected.items():
        # TFDV takes a file for a text unless a schema says that it is an image.
        kind = "bytes_stats" if name == "image/encoded" else feature.WhichOneof("stats")
        assert found[name].WhichOneof("stats") == kind
        one, other = getattr(found[name], kind), getattr(feature, feature.WhichOneof("stats"))
        for field in ("num_non_missing", "num_missing", "min_num_values", "max_num_values", "tot_num_values"):
            assert getattr(one.common_stats, field) == getattr(other.common_stats, field), (name, field)
        assert one.common_stats.avg_num_values == pytest.approx(other.common_stats.avg_num_values)
        if kind == "num_stats":
            for field in ("mean", "std_dev", "min", "max", "num_zeros"):
                assert getattr(one, field) == pytest.approx(getattr(other, field), rel=1e-6), (name, field)
            assert one.median == pytest.approx(other.median, rel=0.1, abs=0.02), name
        elif kind == "string_stats":
            assert (one.unique, one.avg_length) == (other.unique, pytest.approx(other.avg_length)), name
            # Of equals, which ones are listed is a matter of taste.
            found_here, there = ([v.frequency for v in stats.top_values] for stats in (one, other))
            assert found_here == there, name
        else:
            assert one.avg_num_bytes == pytest.approx(other.avg_length)


def test_tfdv_validates_with_our_schema(tfdv, job):
    schema = tfdv.load_schema_text(os.path.join(job.schema, SCHEMA_FILE))
    for split in ("train", "eval"):
        statistics = tfdv.load_stats_binary(split_file(job.statistics, split, STATISTICS_FILE))
        assert not tfdv.validate_statistics(statistics, schema).anomaly_info
        written = files.read_bytes(split_file(job.anomalies, split, ANOMALIES_FILE))
        anomalies = anomalies_pb2.Anomalies.FromString(written)
        assert not anomalies.anomaly_info and anomalies.baseline == schema
    # And infers one of our statistics that agrees with ours.
    theirs = tfdv.infer_schema(tfdv.load_stats_binary(split_file(job.statistics, "train", STATISTICS_FILE)))
    assert {f.name: f.type for f in schema.feature} == {f.name: f.type for f in theirs.feature}


def test_tfdv_finds_a_class_that_is_none_and_drift_in_our_statistics(tfdv, job, tmp_path):
    schema = tfdv.load_schema_text(os.path.join(job.schema, SCHEMA_FILE))
    [domain] = [d for d in schema.string_domain if d.name == CLASS_TEXT]
    domain.value[:] = ["cat"]
    statistics = tfdv.load_stats_binary(split_file(job.statistics, "train", STATISTICS_FILE))
    assert list(tfdv.validate_statistics(statistics, schema).anomaly_info) == [CLASS_TEXT]
    tfdv.get_feature(schema, CLASS_TEXT).drift_comparator.infinity_norm.threshold = 0.1
    other = job_of(tmp_path, {"train": [Made()] * 20, "eval": [Made()]})
    run(other)
    before = tfdv.load_stats_binary(split_file(other.statistics, "train", STATISTICS_FILE))
    found = tfdv.validate_statistics(statistics, schema, previous_statistics=before)
    assert len(found.anomaly_info[CLASS_TEXT].reason) == 2


_NUMBERS = st.integers(-3, 4)
_FLOATS = _NUMBERS.map(float) | st.sampled_from([0.25, 1e9, float("inf")])
_TEXTS = st.sampled_from([b"1", b"-2", b"0.5", b"a'\n", "é".encode()])
_COLUMNS = st.one_of(
    st.builds(int64_feature, st.lists(_NUMBERS, max_size=3)),
    st.builds(float_feature, st.lists(_FLOATS, max_size=3)),
    st.builds(float_feature, st.lists(st.sampled_from([0.5, float("nan")]), max_size=2)),
    st.builds(bytes_feature, st.lists(_TEXTS, max_size=3)),
)


def _parts(*texts):
    """Nothing, or one of the parts that a bar divides."""
    return st.sampled_from(["", *(part.strip() for text in texts for part in text.split("|"))])


_SHAPES = _parts(
    "value_count { min: 1 } | value_count { min: 1 max: 2 } | shape { } | shape { dim { size: 2 } }",
    "value_counts { value_count { min: 2 max: 2 } } | value_counts { value_count { } value_count { } }",
)
_PRESENCES = _parts(
    "presence { min_count: 1 } | presence { min_fraction: 1.0 min_count: 3 } | deprecated: true",
    "presence { min_fraction: 0.7 } | lifecycle_stage: PLANNED | unique_constraints { min: 2 max: 3 }",
)
_DOMAINS = _parts(
    "domain: 'd' | string_domain { value: 'x' } | bool_domain { } | int_domain { min: 0 max: 3 }",
    "string_domain { value: '1' value: 'é' } distribution_constraints { min_domain_mass: 0.5 }",
    "bool_domain { true_value: '1' false_value: '-2' } | image_domain { max_image_byte_size: 2 }",
    "float_domain { min: -0.5 max: 1.25 disallow_nan: true disallow_inf: true }",
)
_TYPES = st.sampled_from(["INT", "FLOAT", "BYTES"])
_NAMES = ["a", "b", "c", "image/encoded"]
_FEATURE = st.tuples(st.sampled_from([*_NAMES, "z"]), _TYPES, _SHAPES, _PRESENCES, _DOMAINS)
_RECORD = st.dictionaries(st.sampled_from(_NAMES), _COLUMNS, max_size=4)


@settings(max_examples=400, deadline=None)
@given(
    records=st.lists(_RECORD, min_size=1, max_size=6),
    features=st.lists(_FEATURE, min_size=1, max_size=4, unique_by=lambda feature: feature[0]),
    counts=st.sampled_from(["", "min_examples_count: 3 max_examples_count: 1"]),
)
def test_a_schema_of_ones_own_finds_what_tfdv_finds(tfdv, records, features, counts):
    """Every anomaly of random columns and schemas: columns, types, texts and severities."""
    text = "string_domain { name: 'd' value: '1' value: '0.5' }"
    for name, kind, *rest in features:
        text += f" feature {{ name: '{name}' type: {kind} {' '.join(rest)} }}"
    try:
        schema = parse_schema(f"{text} dataset_constraints {{ {counts} }}", "x")
    except ConfigError:
        return
    counter = FeatureCounter()
    for number, record in enumerate(_of_one_type(records)):
        counter.add(Example.FromString(serialise_features(record)).features.feature, number)
    statistics = counter.statistics()
    expected = tfdv.validate_statistics(statistics, schema)
    assert _text(find_anomalies(statistics, schema)) == _text(expected)


def _text(anomalies):
    """Without what TFDV prints of a feature that it has changed while it compared."""
    text = text_format.MessageToString(anomalies, as_utf8=True)
    return re.sub(r'(incompatible domain_info: name: \\".*?\\"\\n)[^"]*', r"\1", text)


def _of_one_type(records):
    """Columns that change their type have several statistics, of which TFDV takes one."""
    kinds = {}
    for record in records:
        of_types = {name: feature.WhichOneof("kind") for name, feature in record.items()}
        yield {name: record[name] for name, kind in of_types.items() if kinds.setdefault(name, kind) == kind}
