"""The folder of a workflow's runs, artifacts and metadata.

Layout: `runs/RUN_ID/{run.json, settings.yaml, log.txt, report.html}`, `artifacts/`, `metadata.sqlite` or
`executions/` (with TFX or without), `work` (checkpoints of unfinished training) and, unless the settings name
another place, `pushed/`.
"""

import contextlib
import dataclasses
import datetime
import glob
import logging
import os
import secrets
from collections.abc import Iterator

from detection_core.artifacts.run_info import REPORT_FILE, RUN, RunInfo
from detection_core.errors import ConfigError, ContractError
from detection_core.redaction import redact
from detection_core.storage import files, local_lock

_logger = logging.getLogger(__name__)

_MOMENT = "%Y%m%d-%H%M%S"


@dataclasses.dataclass(frozen=True)
class Workspace:
    """Paths and runs of a workspace."""

    root: str

    def __post_init__(self) -> None:
        """Refuse an object store, which cannot hold a database or a file lock."""
        if files.is_remote(self.root):
            raise ConfigError(
                "expected a local folder as workspace, found an object store; only data, pipeline.config,"
                " starting weights and push.destination may be there",
                where=self.root,
            )

    @property
    def metadata_path(self) -> str:
        """SQLite database of ML Metadata."""
        return os.path.join(self.root, "metadata.sqlite")

    @property
    def artifacts(self) -> str:
        """Folder of the steps' outputs."""
        return os.path.join(self.root, "artifacts")

    @property
    def executions(self) -> str:
        """Folder of the records of executions without ML Metadata."""
        return os.path.join(self.root, "executions")

    def run_dir(self, run_id: str) -> str:
        """Return the folder of a run."""
        return os.path.join(self.root, "runs", run_id)

    def report_path(self, run_id: str) -> str:
        """Return the path of a run's report."""
        return os.path.join(self.run_dir(run_id), REPORT_FILE)

    def write_info(self, info: RunInfo) -> None:
        """Write run.json, replacing the previous one."""
        files.write_text(RUN.path(self.run_dir(info.run_id)), redact(RUN.format(info)))

    def runs(self) -> list[RunInfo]:
        """Return all runs, oldest first. A `running` run without a lock is reported as stopped.

        Runs with a damaged run.json are skipped with a warning.
        """
        found, locked = [], self.is_locked()
        for folder in files.list_matching(os.path.join(self.root, "runs"), "*"):
            try:
                info = RUN.find(folder)
            except ContractError as e:
                _logger.warning("runs | %s is left out: %s", RUN.path(folder), e.message)
                continue
            if info is None:
                continue
            if info.run_id != os.path.basename(folder):
                path, fault = RUN.path(folder), f"expected a run of its folder's name, found {info.run_id!r}"
                _logger.warning("runs | %s is left out: %s; %s", path, fault, RUN.remedy)
                continue
            if info.status == "running" and not locked:
                info = dataclasses.replace(info, status="stopped")
            found.append(info)
        return sorted(found, key=lambda r: r.run_id)

    def run(self, run_id: str = "") -> RunInfo:
        """Return a run; without an id the newest one. Raises ConfigError when it does not exist."""
        runs = [r for r in self.runs() if r.run_id == run_id or not run_id]
        if not runs:
            expected = f"the run {run_id}" if run_id else "a run"
            raise ConfigError(
                f"expected {expected}, found none; `detflow runs` lists what is there", where=self.root
            )
        return runs[-1]

    def is_locked(self) -> bool:
        """Tell whether a run is active."""
        return local_lock.is_locked(self._lock_path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the workspace for one run; a second run waits. A killed run releases its lock.

        Remove incomplete files of killed runs.
        """
        files.make_dirs(self.root)
        with local_lock.lock(self._lock_path, "another run is active here; waiting for it to end"):
            for pattern in ("runs", "runs/*", "artifacts/*/*", "artifacts/*/*/*", "work/*"):
                for folder in glob.glob(os.path.join(glob.escape(self.root), pattern)):
                    files.remove_leftovers(folder)
            yield

    @property
    def _lock_path(self) -> str:
        return os.path.join(self.root, ".lock")

    def new_run_id(self) -> str:
        """Return a unique id that sorts after all runs of the workspace, even if the clock was set back."""
        names = [os.path.basename(p) for p in files.list_matching(os.path.join(self.root, "runs"), "*")]
        moment = datetime.datetime.now(datetime.UTC)
        with contextlib.suppress(ValueError):
            last = datetime.datetime.strptime(max(names, default="")[: len("20260101-000000")], _MOMENT)
            moment = max(moment, last.replace(tzinfo=datetime.UTC) + datetime.timedelta(seconds=1))
        return f"{moment:{_MOMENT}}-{secrets.token_hex(2)}"
