"""Bounds on what files cost."""

import pytest

from detection_core.errors import ConfigError
from detection_core.tasks.file_limits import Footprint, check_limits, measure_memory
from tests.support.edge_files import convolutions

COST = Footprint(size_bytes=4_000_000, latency_ms={"1": 12.0, "2": 7.0}, peak_memory_bytes=30_000_000)


def test_each_bound_that_is_exceeded_is_a_clause():
    for limits, clauses in (
        ({}, []),
        ({"size_mb": 4, "latency_ms": 12, "memory_mb": 30}, []),
        ({"size_mb": 3.9}, ["size_mb 4 is more than 3.9"]),
        (
            {"latency_ms": 8, "memory_mb": 20.5},
            ["latency_ms 12 is more than 8", "memory_mb 30 is more than 20.5"],
        ),
    ):
        assert COST.exceeded(limits) == clauses
    unknown = Footprint(size_bytes=1, latency_ms={}).exceeded({"latency_ms": 1, "memory_mb": 1})
    assert [clause.split()[0] for clause in unknown] == ["latency_ms", "memory_mb"]
    assert all("could not be measured" in clause for clause in unknown)


def test_bounds_that_mean_nothing_are_refused():
    number = "limits.float32.size_mb: expected a number above 0"
    for limits, message in (
        ({"int8": {"size_mb": 1}}, "limits: expected limits of files that are made"),
        ({"float32": {"bytes": 1}}, "limits.float32: expected some of size_mb, latency_ms, memory_mb"),
        ({"float32": {"size_mb": 0}}, number),
        ({"float32": {"size_mb": "4"}}, number),
        ({"float32": {"size_mb": float("nan")}}, number),
    ):
        with pytest.raises(ConfigError, match=message):
            check_limits(limits, ("float32",))


def test_memory_of_a_file_is_measured(tmp_path):
    (tmp_path / "m.tflite").write_bytes(convolutions(side=256))
    assert 1e6 < measure_memory(str(tmp_path / "m.tflite")) < 200e6
