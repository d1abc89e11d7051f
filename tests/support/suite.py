"""The suite as a whole: the order of files, what tests cost, and the memory that they leave.

`pytest --shuffle 7` runs files and the tests of each file in a random order. Several workers get the files
that took long first, by `recorded_times.json`, which `pytest --record-times` writes.
"""

import ctypes
import gc
import json
import mmap
import os
import random
import sys
from collections import Counter
from collections.abc import Generator
from itertools import groupby
from pathlib import Path

import pytest

TEST_SECONDS = 0.05
FILE_SECONDS = 5.0
RECORDED = Path(__file__).with_name("recorded_times.json")
GROWTH = 150 << 20
"""Bytes."""
_SHOWN = 15


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this module."""
    group = parser.getgroup("detflow")
    group.addoption("--shuffle", type=int, metavar="SEED", help="run files and their tests in random order")
    group.addoption("--record-times", action="store_true", help="write the processor time of each file")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in the process that reports."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Costs(config), "costs")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files in random order, or those that take long first: they must not be left to the end."""
    files = {file: list(tests) for file, tests in groupby(items, key=_file)}
    seed = config.getoption("shuffle")
    if seed is not None:
        # The order must not depend on what a set or the file system gives: workers have to agree.
        draws = random.Random(seed)
        order = sorted(files)
        draws.shuffle(order)
        for file in order:
            draws.shuffle(files[file])
    else:
        seconds = json.loads(RECORDED.read_text()) if hasattr(config, "workerinput") else {}
        order = sorted(files, key=lambda file: -seconds.get(file, 0.0))
    items[:] = [test for file in order for test in files[file]]


def pytest_collection_finish() -> None:
    """Keep what imports made out of every later garbage collection, and collect less often.

    Tracing networks creates millions of objects that stay: looking for cycles took 4 % of the suite's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Measure a phase in processor time: with other work beside it, its duration says nothing."""
    report = yield
    spent = sum(os.times()[:4])
    report.__dict__["processor_seconds"] = spent - _phase.ended  # xdist sends every attribute of a report
    _phase.ended = spent
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Give memory back after a file that took much of it."""
    _phase.ended = sum(os.times()[:4])
    result = yield
    if nextitem is None or _file(item) != _file(nextitem):
        _memory.give_back()
    return result


class _Memory:
    """The memory of this process; collecting takes half a second, so that it waits for a reason."""

    def __init__(self) -> None:
        self._kept = 0

    def give_back(self) -> None:
        """Collect and return memory where more than GROWTH was added since the last time."""
        if _resident() < self._kept + GROWTH:
            return
        if "tensorflow" in sys.modules:
            import tensorflow as tf
            from tensorflow.python.framework import ops

            tf.compat.v1.reset_default_graph()
            # A gradient of our own is registered for ever in each graph that has it, and keeps the graph.
            gradients = ops.gradient_registry._registry
            for name in [name for name in gradients if name.startswith("CustomGradient")]:
                del gradients[name]
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        self._kept = _resident()


_memory = _Memory()


class _Phase:
    """When the last phase of a test ended, in processor seconds of this process and its ended children."""

    ended = 0.0


_phase = _Phase()


class _Costs:
    """Sums the processor time that tests take and shows those that take more than they may."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        self._tests[report.nodeid] += report.__dict__.get("processor_seconds", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print which files and tests exceed what CONTRIBUTING.md allows."""
        files: Counter[str] = Counter()
        for test, seconds in self._tests.items():
            files[test.partition("::")[0]] += seconds
        if self._config.getoption("record_times"):
            before = json.loads(RECORDED.read_text()).items()
            kept = {file: seconds for file, seconds in before if Path(file).exists() and file not in files}
            recorded = kept | {file: round(seconds, 1) for file, seconds in files.items() if seconds >= 1.0}
            RECORDED.write_text(json.dumps(dict(sorted(recorded.items())), indent=0) + "\n")
        for what, costs, bound in (("files", files, FILE_SECONDS), ("tests", self._tests, TEST_SECONDS)):
            over = [(name, seconds) for name, seconds in costs.most_common() if seconds > bound]
            if over:
                total = sum(seconds for _, seconds in over)
                terminalreporter.section(
                    f"{len(over)} {what} over {bound} s, {total:.0f} s together", sep="-"
                )
                for name, seconds in over[:_SHOWN]:
                    terminalreporter.write_line(f"{seconds:8.2f}s {name}")


def _resident() -> int:
    """Return how many bytes of memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
