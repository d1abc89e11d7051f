"""The folder of one trial."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from detection_core.artifacts.model_run import VALIDATIONS, ValidationLine
from detection_core.storage import files

_JOB, _LOG = "job.json", "output.txt"
_TAIL = 4096


@dataclasses.dataclass(frozen=True)
class TrialFolder:
    """Paths of a trial."""

    path: str

    @property
    def model(self) -> str:
        """The trained detector."""
        return os.path.join(self.path, "model")

    @property
    def model_run(self) -> str:
        """The training's report."""
        return os.path.join(self.path, "model_run")

    @property
    def work(self) -> str:
        """Checkpoints of unfinished training."""
        return os.path.join(self.path, "work")

    @property
    def log(self) -> str:
        """The training's log."""
        return os.path.join(self.path, _LOG)

    def write_job(self, fields: Mapping[str, Any]) -> None:
        """Write the trial's job: fields of `TrainerJob` without the paths of this folder."""
        files.write_text(os.path.join(self.path, _JOB), json.dumps(dict(fields), indent=1) + "\n")

    def read_job(self) -> str:
        """Return the trial's job, from JSON."""
        return files.read_text(os.path.join(self.path, _JOB))

    def validations(self) -> list[ValidationLine]:
        """Return the validations so far, sorted by step."""
        finished = VALIDATIONS.read_whole_lines(self.model_run)
        if finished or not os.path.isdir(self.work):
            return finished
        found = (
            VALIDATIONS.read_whole_lines(os.path.join(self.work, name)) for name in os.listdir(self.work)
        )
        return max(found, key=len, default=[])

    def last_words(self) -> str:
        """Return the last line of the log."""
        try:
            with open(self.log, "rb") as f:
                f.seek(max(0, os.path.getsize(self.log) - _TAIL))
                lines = f.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def clear(self, *, keep_model: bool) -> None:
        """Remove files that a finished training does not need."""
        files.remove_tree(self.work)
        if not keep_model:
            files.remove_tree(self.model)
