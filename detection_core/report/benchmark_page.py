"""The page of a benchmark."""

from __future__ import annotations

from detection_core.artifacts.benchmark import Benchmark
from detection_core.report.page import render

BENCHMARK_PAGE = "index.html"


def benchmark_page(benchmark: Benchmark) -> str:
    """Return the page of a benchmark."""
    kinds = dict.fromkeys(kind.name for file in benchmark.files for kind in file.operators)
    by_name = [{kind.name: kind for kind in file.operators} for file in benchmark.files]
    return render("benchmark_page.html", {"b": benchmark, "kinds": list(kinds), "by_name": by_name})
