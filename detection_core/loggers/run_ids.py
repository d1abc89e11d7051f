"""Ids of a training's runs on tracking servers, which a resumed training continues."""

from __future__ import annotations

import json
import logging

from detection_core.storage import files

_logger = logging.getLogger(__name__)

NAME = "tracked_runs.json"


class RunIds:
    """The ids of runs by tracking server, in the folder of the unfinished training.

    Args:
        folder: of the training.
    """

    def __init__(self, folder: str) -> None:
        self._path = files.join(folder, NAME)

    def find(self, tracker: str) -> str:
        """Return the id of a run, "" where there is none yet."""
        return self._read().get(tracker, "")

    def keep(self, tracker: str, run_id: str) -> None:
        """Remember the id of a run."""
        files.write_text(self._path, json.dumps(self._read() | {tracker: run_id}, indent=1) + "\n")

    def _read(self) -> dict[str, str]:
        if not files.exists(self._path):
            return {}
        try:
            found = json.loads(files.read_text(self._path))
            return {str(name): str(run_id) for name, run_id in found.items()}
        except (ValueError, AttributeError):
            _logger.warning(
                "%s: cannot be read; the training begins new runs where it is tracked", self._path
            )
            return {}
