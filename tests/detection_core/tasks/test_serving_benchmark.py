"""Timing of SavedModels."""

import dataclasses

import pytest

from detection_core.artifacts import detector as layout
from detection_core.errors import ConfigError
from detection_core.tasks.serving_benchmark import ServingBenchOptions, bench_saved_models
from tests.support.blobs import BlobDetector, save
from tests.support.detectors import trained

FAST = ServingBenchOptions(batch_sizes=(1, 4), runs=5, image_size=(40, 50))


def test_each_size_of_a_batch_is_a_timing_that_adds_up():
    timings = bench_saved_models([layout.serving_dir(str(trained("plain") / "model"))], FAST)
    assert [t.batch_size for t in timings] == [1, 4]
    for timing in timings:
        assert 0 < timing.p50_ms <= timing.p90_ms <= timing.p99_ms
        assert timing.load_ms > 0 and timing.runs == 5
        # The mean lies between the least and the most, about which the percentiles say enough.
        assert timing.images_per_second < 1000 * timing.batch_size / (timing.p50_ms / 5)


def test_a_model_of_one_image_is_measured_with_one_or_refused(tmp_path):
    path = save(BlobDetector(), tmp_path)
    assert [t.batch_size for t in bench_saved_models([path], FAST)] == [1]
    with pytest.raises(ConfigError, match="expected the batch size 1, which the model takes, found"):
        bench_saved_models([path], dataclasses.replace(FAST, batch_sizes=(8,)))
    for changes in ({"batch_sizes": ()}, {"batch_sizes": (0,)}, {"runs": 0}, {"image_size": (0, 4)}):
        with pytest.raises(ConfigError, match="expected batches, runs and image sides from 1"):
            ServingBenchOptions(**changes)
