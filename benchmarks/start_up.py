"""How long each verb of the command line takes to start, beside the import of TensorFlow.

    python -m benchmarks.start_up WORKSPACE

Every verb runs in a separate process on small input from the workspace of a finished run.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.results import add_keep, keep

ROOT = Path(__file__).resolve().parents[1]
_IMPORT = re.compile(r"^import time: +(\d+) \|.*\| *(\S+)$", re.MULTILINE)
_QUICKLY = "from detection_core.quick_imports import import_quickly; import_quickly(); import tensorflow"

COMMANDS = {
    "--help": "--help",
    "completion": "completion bash",
    "zoo": "zoo list",
    "doctor": "doctor",
    "runs": "runs {workspace}",
    "config": "config show {config}",
    "validate": "validate {settings}",
    "compile": "compile {settings} --output {scratch}/workflow.yaml",
    "inspect": "inspect {tflite}",
    "report": "report {workspace} --output {scratch}/report.html",
    "run": "run {settings}",
}
"""Verb to its words. Verbs that run a detector are left out: they import TensorFlow."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Start:
    """What a process cost.

    Attributes:
        cpu_s: processor time of the whole process.
        import_s: of it, the imports' own time.
        tensorflow: whether it imported TensorFlow.
    """

    cpu_s: float
    import_s: float
    tensorflow: bool


def measure_start(words: list[str]) -> Start:
    """Run Python with some words and the import clock; CalledProcessError if it fails."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "pipeline" / "api")))
    environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", *words],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    after = os.times()
    cost = after.children_user - before.children_user + after.children_system - before.children_system
    found = _IMPORT.findall(done.stderr)
    return Start(
        cpu_s=round(cost, 2),
        import_s=round(sum(int(own) for own, _ in found) / 1e6, 2),
        tensorflow=any(name == "tensorflow" for _, name in found),
    )


def measure_verbs(commands: dict[str, str], **places: str) -> dict[str, Start]:
    """Measure verbs, and `import tensorflow` first; `places` fills the commands' placeholders."""
    found = {"import tensorflow": measure_start(["-c", _QUICKLY])}
    for verb, command in commands.items():
        words = [word.format_map(places) for word in command.split()]
        found[verb] = measure_start(["-m", "pipeline.cli", *words])
    return found


def places_of(workspace: Path, scratch: str) -> dict[str, str]:
    """Return what the commands need from a workspace; its last run has published a version."""

    def last(pattern: str) -> str:
        return str(sorted(workspace.glob(pattern))[-1])

    return {
        "workspace": str(workspace),
        "settings": last("runs/*/settings.yaml"),
        "scratch": scratch,
        "tflite": last("pushed/tflite/*/model_int8.tflite"),
        "config": last("artifacts/trainer/model/*/Format-Serving/assets.extra/detflow/pipeline.config"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workspace", type=Path, help="of a finished run that published a version")
    add_keep(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = measure_verbs(COMMANDS, **places_of(arguments.workspace, scratch))
    base = found["import tensorflow"].import_s
    rows = [
        {
            "": verb,
            "CPU seconds": f"{start.cpu_s:.2f}",
            "imports, s": f"{start.import_s:.2f}",
            "beside TensorFlow's": f"{start.import_s / base:.2f}",
            "TensorFlow": "yes" if start.tensorflow else "no",
        }
        for verb, start in found.items()
    ]
    for row in rows:
        print(*row.values(), sep="\t")
    keep(arguments.keep, rows)


if __name__ == "__main__":
    main()
