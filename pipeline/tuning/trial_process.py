"""One training of a search, in a separate process: `python -m pipeline.tuning.trial_process FOLDER`."""

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from detection_core import errors
from detection_core.artifacts.model_run import VALIDATIONS, ValidationLine
from detection_core.extensions import load_extensions
from detection_core.quick_imports import import_quickly
from detection_core.storage import files
from pipeline.console import start_logging
from pipeline.interruption import run_program

_logger = logging.getLogger(__name__)

_JOB = "job.json"
_TAIL = 4096


class TrialFolder:
    """Paths of a trial: detector, training report, unfinished checkpoints (`work`), log."""

    def __init__(self, path: str) -> None:
        self.path = path
        names = ("model", "model_run", "work", "output.txt")
        self.model, self.model_run, self.work, self.log = (os.path.join(path, name) for name in names)

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
        folders = (os.path.join(self.work, name) for name in os.listdir(self.work))
        return max(map(VALIDATIONS.read_whole_lines, folders), key=len, default=[])

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


EXIT_UNFIT = 3
"""Exit code if no training can complete with these values."""


def main(argv: Sequence[str]) -> int:
    """Train as described by the folder's job; return the exit code."""
    start_logging()
    import_quickly()
    _leave_with_parent(os.getppid())
    folder = TrialFolder(argv[0])
    try:
        load_extensions()
        _train(folder)
    except (errors.ConfigError, errors.ModelError) as error:
        _logger.error("%s", error)
        return EXIT_UNFIT
    except Exception as error:
        known = error if isinstance(error, errors.DetectionError) else errors.as_user_error(error)
        if known is None:
            raise
        _logger.error("%s", known)
        return errors.EXIT_USER_ERROR
    return errors.EXIT_DONE


def _train(folder: TrialFolder) -> None:
    fields = json.loads(folder.read_job())
    from component_specs import TrainerJob
    from components.trainer.run import run

    run(TrainerJob(**fields, model=folder.model, model_run=folder.model_run, work_dir=folder.work))


def _leave_with_parent(parent: int) -> None:
    """Save a checkpoint and stop if the search process has died."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))
