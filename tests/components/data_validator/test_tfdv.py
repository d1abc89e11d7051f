"""TensorFlow Data Validation reads what DataValidator writes, and comes to the same numbers itself."""

from __future__ import annotations

import hashlib
import os
import sys
import types

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2

from components.data_validator.run import run
from detection_core.artifacts.feature_files import (
    ANOMALIES_FILE,
    SCHEMA_FILE,
    STATISTICS_FILE,
    split_file,
)
from detection_core.storage import files
from tests.components.data_validator.test_run import BOTH, _job
from tests.detection_core.validation.made_examples import Made

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
    job = _job(tmp_path_factory.mktemp("tfdv"), {"train": [BOTH] * 20 + several, "eval": [BOTH] * 3})
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
            assert _frequencies(one) == _frequencies(other), name
        else:
            assert one.avg_num_bytes == pytest.approx(other.avg_length)


def _frequencies(stats):
    """Of equals, which ones are listed is a matter of taste."""
    return [v.frequency for v in stats.top_values]


def test_tfdv_validates_with_our_schema(tfdv, job):
    schema = tfdv.load_schema_text(os.path.join(job.schema, SCHEMA_FILE))
    for split in ("train", "eval"):
        statistics = tfdv.load_stats_binary(split_file(job.statistics, split, STATISTICS_FILE))
        assert not tfdv.validate_statistics(statistics, schema).anomaly_info
        written = files.read_bytes(split_file(job.anomalies, split, ANOMALIES_FILE))
        anomalies = anomalies_pb2.Anomalies.FromString(written)
        assert not anomalies.anomaly_info and anomalies.baseline == schema


def test_tfdv_infers_a_schema_of_our_statistics_that_agrees_with_ours(tfdv, job):
    ours = tfdv.load_schema_text(os.path.join(job.schema, SCHEMA_FILE))
    statistics = tfdv.load_stats_binary(split_file(job.statistics, "train", STATISTICS_FILE))
    theirs = tfdv.infer_schema(statistics)
    assert {f.name: f.type for f in ours.feature} == {f.name: f.type for f in theirs.feature}


def test_tfdv_finds_a_class_that_is_none_and_drift_in_our_statistics(tfdv, job, tmp_path):
    schema = tfdv.load_schema_text(os.path.join(job.schema, SCHEMA_FILE))
    [domain] = [d for d in schema.string_domain if d.name == "image/object/class/text"]
    domain.value[:] = ["cat"]
    statistics = tfdv.load_stats_binary(split_file(job.statistics, "train", STATISTICS_FILE))
    assert list(tfdv.validate_statistics(statistics, schema).anomaly_info) == ["image/object/class/text"]
    tfdv.get_feature(schema, "image/object/class/text").drift_comparator.infinity_norm.threshold = 0.1
    other = _job(tmp_path, {"train": [Made()] * 20, "eval": [Made()]})
    run(other)
    before = tfdv.load_stats_binary(split_file(other.statistics, "train", STATISTICS_FILE))
    found = tfdv.validate_statistics(statistics, schema, previous_statistics=before)
    reasons = [r.type for r in found.anomaly_info["image/object/class/text"].reason]
    assert len(reasons) == 2
