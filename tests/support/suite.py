"""The suite as a whole: in which order files run, and which tests cost more than they may.

`pytest --shuffle 7` runs files and the tests of each file in a random order. Several workers get the files
that took long first, by `recorded_times.json`, which `pytest --record-times` writes.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

TEST_SECONDS = 0.05
FILE_SECONDS = 5.0
RECORDED = Path(__file__).with_name("recorded_times.json")
_SHOWN = 15


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this module."""
    group = parser.getgroup("detflow")
    group.addoption("--shuffle", type=int, metavar="SEED", help="run files and their tests in random order")
    group.addoption("--record-times", action="store_true", help="write how long each file took")


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


class _Costs:
    """Sums what tests take and shows those that take more than they may."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        self._tests[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print which files and tests exceed what CONTRIBUTING.md allows."""
        files: Counter[str] = Counter()
        for test, seconds in self._tests.items():
            files[test.partition("::")[0]] += seconds
        if self._config.getoption("record_times"):
            recorded = {file: round(seconds, 1) for file, seconds in sorted(files.items()) if seconds >= 1.0}
            RECORDED.write_text(json.dumps(recorded, indent=0) + "\n")
        for what, costs, bound in (("files", files, FILE_SECONDS), ("tests", self._tests, TEST_SECONDS)):
            over = [(name, seconds) for name, seconds in costs.most_common() if seconds > bound]
            if over:
                total = sum(seconds for _, seconds in over)
                terminalreporter.section(
                    f"{len(over)} {what} over {bound} s, {total:.0f} s together", sep="-"
                )
                for name, seconds in over[:_SHOWN]:
                    terminalreporter.write_line(f"{seconds:8.2f}s {name}")


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
