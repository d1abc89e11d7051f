"""One training of a search, in a separate process: `python -m pipeline.tuning.trial_process FOLDER`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

from detection_core.errors import (
    EXIT_DONE,
    EXIT_USER_ERROR,
    ConfigError,
    DetectionError,
    ModelError,
    as_user_error,
)
from detection_core.extensions import load_extensions
from pipeline.console import start_logging
from pipeline.interruption import run_program
from pipeline.tuning.trial_folder import TrialFolder

_logger = logging.getLogger(__name__)

EXIT_UNFIT = 3
"""Exit code if no training can complete with these values."""


def main(argv: Sequence[str]) -> int:
    """Train as described by the folder's job; return the exit code."""
    start_logging()
    _leave_with_parent(os.getppid())
    folder = TrialFolder(argv[0])
    try:
        load_extensions()
        _train(folder)
    except (ConfigError, ModelError) as error:
        _logger.error("%s", error)
        return EXIT_UNFIT
    except Exception as error:
        known = error if isinstance(error, DetectionError) else as_user_error(error)
        if known is None:
            raise
        _logger.error("%s", known)
        return EXIT_USER_ERROR
    return EXIT_DONE


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
