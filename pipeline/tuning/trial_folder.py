"""The folder of one training of a search."""

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
    """Paths of a trial.

    Attributes:
        path: of the folder.
    """

    path: str

    @property
    def model(self) -> str:
        """The detector that was trained."""
        return os.path.join(self.path, "model")

    @property
    def model_run(self) -> str:
        """What tells of the training."""
        return os.path.join(self.path, "model_run")

    @property
    def work(self) -> str:
        """Unfinished training."""
        return os.path.join(self.path, "work")

    @property
    def log(self) -> str:
        """What the training said."""
        return os.path.join(self.path, _LOG)

    def write_job(self, fields: Mapping[str, Any]) -> None:
        """Write what the training is asked to do: fields of `TrainerJob` but those of this folder."""
        files.write_text(os.path.join(self.path, _JOB), json.dumps(dict(fields), indent=1) + "\n")

    def read_job(self) -> str:
        """Return what the training is asked to do, as JSON."""
        return files.read_text(os.path.join(self.path, _JOB))

    def validations(self) -> list[ValidationLine]:
        """Return what was found so far, by rising steps."""
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
        """Remove what a training that has ended needs no more."""
        files.remove_tree(self.work)
        if not keep_model:
            files.remove_tree(self.model)
