"""The best trial as a file of overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from detection_core.storage import files
from pipeline.tuning.search import TrialRecord

WINNER = "best.yaml"


def write_winner(path: str, best: TrialRecord, overrides: Mapping[str, Any]) -> None:
    """Write what makes a training that of the best trial.

    Args:
        path: of the file.
        best: the trial.
        overrides: all of its overrides, those that every trial has among them.
    """
    told = f"Trial {best.number + 1} of `detflow tune`, score {best.score}"
    head = f"# {told}; for `detflow run --override-file`.\n"
    files.write_text(path, head + yaml.safe_dump(dict(overrides), sort_keys=False))
