import math

import numpy as np
import pytest

from detection_core.data.encode import bytes_feature, float_feature, int64_feature
from detection_core.validation import feature_statistics
from tests.support.feature_records import make_statistics


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
    records = [{f"column {n}": int64_feature([1]), "t": bytes_feature([str(n).encode()])} for n in range(40)]
    _, found = _count(*records)
    assert len(found) == 20
    assert found["t"].string_stats.unique == 0 and found["t"].string_stats.common_stats.num_non_missing == 40
