"""Run ids on tracking servers, so that a resumed training continues its runs."""

from __future__ import annotations

import json
import logging

from detection_core.storage import files

_logger = logging.getLogger(__name__)

NAME = "tracked_runs.json"


class RunIds:
    """Run ids by tracking server, stored in the folder of the unfinished training."""

    def __init__(self, folder: str) -> None:
        self._path = files.join(folder, NAME)

    def find(self, tracker: str) -> str:
        """Return the id of a run, "" if there is none yet."""
        return self._read().get(tracker, "")

    def keep(self, tracker: str, run_id: str) -> None:
        """Store the id of a run."""
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
