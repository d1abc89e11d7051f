"""The folder of a workflow's runs, artifacts and metadata.

Layout: `runs/RUN_ID/{run.json, settings.yaml, log.txt, report.html}`, `artifacts/`, `metadata.sqlite`, `work`
(checkpoints of unfinished training) and, unless the settings name another place, `pushed/`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import logging
import os
import secrets
from collections.abc import Iterator

from detection_core import files
from detection_core.errors import ConfigError
from pipeline.run_record import RunRecord

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Workspace:
    """Paths and records of a workspace.

    Attributes:
        root: its folder.
    """

    root: str

    @property
    def metadata_path(self) -> str:
        """SQLite file of ML Metadata."""
        return os.path.join(self.root, "metadata.sqlite")

    @property
    def artifacts(self) -> str:
        """Folder below which TFX puts artifacts."""
        return os.path.join(self.root, "artifacts")

    def run_dir(self, run_id: str) -> str:
        """Return the folder of a run."""
        return os.path.join(self.root, "runs", run_id)

    def write_record(self, record: RunRecord) -> None:
        """Write run.json, replacing the one before."""
        files.write_text(os.path.join(self.run_dir(record.run_id), "run.json"), record.to_json())

    def records(self) -> list[RunRecord]:
        """Return all runs, oldest first. One that says `running` while nobody holds its lock was stopped."""
        found = []
        for folder in files.list_matching(os.path.join(self.root, "runs"), "*"):
            path = os.path.join(folder, "run.json")
            if not files.exists(path):
                continue
            record = RunRecord.from_json(files.read_text(path))
            if record.status == "running" and not self.is_locked():
                record = dataclasses.replace(record, status="stopped")
            found.append(record)
        return sorted(found, key=lambda r: r.run_id)

    def record(self, run_id: str = "") -> RunRecord:
        """Return a run, the newest without an id.

        Raises:
            ConfigError: when there is none.
        """
        records = [r for r in self.records() if r.run_id == run_id or not run_id]
        if not records:
            wanted = f"the run {run_id}" if run_id else "a run"
            raise ConfigError(
                f"expected {wanted}, found none; `detflow runs` lists what is there", where=self.root
            )
        return records[-1]

    def is_locked(self) -> bool:
        """Tell whether a run is under way here."""
        path = os.path.join(self.root, ".lock")
        if not os.path.exists(path):
            return False
        with open(path, encoding="utf-8") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the workspace for one run; a second run waits. A killed run lets go by itself."""
        os.makedirs(self.root, exist_ok=True)
        with open(os.path.join(self.root, ".lock"), "w", encoding="utf-8") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _log.info("run | another run is under way in %s; waiting for it to end", self.root)
                fcntl.flock(f, fcntl.LOCK_EX)
            yield


def new_run_id() -> str:
    """Return a unique id that sorts by time."""
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
