"""The command line, called in the test's process, and programs in child processes."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import parser

FEW_UPDATES = (
    "train_config.batch_size=2",
    "train.overrides.train_config.num_steps=6",
    "quantize.overrides.train_config.num_steps=2",
    "evaluate.thresholds={}",
    "evaluate.quantized_thresholds={}",
    "export.max_map_drop=1.0",
)
"""Settings of a short workflow, whose gates let everything pass."""


def run_python(code: str, *words: str, check: bool = True, **options: Any) -> Any:
    """Run a program in a child process; return the completed process with output and errors as text."""
    quickly = "from detection_core.quick_imports import import_quickly\nimport_quickly()\n"
    command = [sys.executable, "-c", quickly + code, *words]
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=600, **options)


def has_ended(process: int, within: float = 60.0) -> bool:
    """Wait until a process has ended, as a zombie too; tell whether it did in so many seconds."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


class CommandLine:
    """`cli("zoo", "list")` runs a verb and returns what it printed.

    No process is forked for verbs that open models: `pipeline.cli.supervisor` is tested elsewhere. `err` is
    what the last verb wrote to the standard error.
    """

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.err = ""
        self._capture = capture

    def __call__(self, *words: object, code: int = 0) -> str:
        """Run a verb that ends with a code, and return its output."""
        self._capture.readouterr()
        found = parser.main([str(word) for word in words])
        out, self.err = self._capture.readouterr()
        assert found == code, (found, words, out, self.err)
        return out

    def json(self, *words: object, code: int = 0) -> Any:
        """Run a verb that answers a script."""
        return json.loads(self(*words, "--json", code=code))

    def refused(self, *words: object) -> str:
        """Run a verb that ends with one line about a mistake, and return the line."""
        out = self(*words, code=2)
        assert (out, self.err.count("\n"), self.err[:9]) == ("", 1, "detflow: "), (words, out, self.err)
        return self.err
