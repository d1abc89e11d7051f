"""Searches with what stands for a training; `python -m tests.pipeline.tuning.searches` runs one."""

import json
import sys
from pathlib import Path
from typing import Any

from pipeline.tuning.search import Parameter, Search, Space
from pipeline.tuning.tuner import Tuner, TunerOptions

FAKE = Path(__file__).with_name("fake_training.py")
X = Space(parameters={"x": Parameter(low=0.0, high=1.0)}, pruner="none")


def command(folder: str) -> list[str]:
    return [sys.executable, str(FAKE), folder]


def tuned(folder: Path, space: Space, trials: int, workers: int = 1, **fixed: Any) -> tuple[Search, Tuner]:
    """Make a search and its tuner; `fixed` tells each training what to do."""
    options = TunerOptions(trials=trials, workers=workers, poll_seconds=0.02, command=command)
    search = Search(space, str(folder))
    return search, Tuner(search, lambda values: {"overrides": {**fixed, **values}}, str(folder), options)


if __name__ == "__main__":
    tuned(Path(sys.argv[1]), X, 6, **json.loads(sys.argv[2]))[1].run()
