"""Parallel trainings: start, monitor and prune them."""

import dataclasses
import glob
import logging
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

from detection_core.errors import DataError, one_line
from detection_core.python_process import python_command, python_environment
from detection_core.training.stop_signal import StopSignal
from pipeline.tuning.search import Search, Trial
from pipeline.tuning.trial_process import EXIT_UNFIT, TrialFolder

_logger = logging.getLogger(__name__)

_PATIENCE = 120.0
"""Seconds for saving a checkpoint when the search is stopped."""
_HOPELESS = 3
"""Number of failed trials without a success after which the search stops."""


def trial_command(folder: str) -> list[str]:
    """Return the command that trains from a trial's folder."""
    return [*python_command("pipeline.tuning.trial_process"), folder]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TunerOptions:
    """Options of running a search.

    Attributes:
        trials: total number of trainings, including those of earlier calls.
        workers: number of concurrent trainings.
        command: command that trains from a trial's folder.
    """

    trials: int
    workers: int = 1
    poll_seconds: float = 1.0
    command: Callable[[str], list[str]] = trial_command


@dataclasses.dataclass
class _Running:
    """An active training; `slot` is the number of its worker."""

    trial: Trial
    folder: TrialFolder
    process: subprocess.Popen[bytes]
    slot: int


class Tuner:
    """Runs the trials of a search.

    Args:
        search: the search and its results so far.
        make_job: overrides of a trial to the fields of its `TrainerJob`, without its outputs and `work_dir`.
        folder: parent of the trials' folders.
    """

    def __init__(
        self,
        search: Search,
        make_job: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        folder: str,
        options: TunerOptions,
    ) -> None:
        self._search, self._make_job, self._folder, self._options = search, make_job, folder, options
        self._running: list[_Running] = []

    def run(self) -> None:
        """Run until the requested number of trials is reached.

        Raises:
            DataError: when no trial succeeds.
            SystemExit, KeyboardInterrupt: after a stop signal, when the trainings have saved.
        """
        waiting = self._search.interrupted()
        with StopSignal() as stop:
            try:
                while not stop.received and (self._running or waiting or self._is_wanted()):
                    while len(self._running) < self._options.workers and (waiting or self._is_wanted()):
                        self._begin(waiting.pop(0) if waiting else self._search.ask())
                    time.sleep(self._options.poll_seconds)
                    self._running = [running for running in self._running if not self._has_ended(running)]
            finally:
                self._stop_all()
            if stop.received:
                stop.leave()

    def _is_wanted(self) -> bool:
        return len(self._search.records()) < self._options.trials

    def trial_folder(self, number: int) -> TrialFolder:
        """Return the folder of a trial."""
        return TrialFolder(os.path.join(self._folder, "trials", f"{number:04d}"))

    def _begin(self, trial: Trial) -> None:
        folder = self.trial_folder(trial.number)
        os.makedirs(folder.path, exist_ok=True)
        folder.write_job(self._make_job(trial.overrides))
        slot = min(set(range(self._options.workers)) - {running.slot for running in self._running})
        with open(folder.log, "ab") as log:
            process = subprocess.Popen(
                self._options.command(folder.path),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**python_environment(), **worker_environment(slot, self._options.workers)},
                start_new_session=True,  # Ctrl-C reaches only the search, which stops its trainings
            )
        values = ", ".join(f"{name} {value}" for name, value in trial.overrides.items())
        _logger.info("tune | trial %d/%d begins: %s", trial.number + 1, self._options.trials, values)
        self._running.append(_Running(trial, folder, process, slot))

    def _has_ended(self, running: _Running) -> bool:
        """Check a training; record its end in the search and tell whether it has ended."""
        code = running.process.poll()
        running.trial.report(running.folder.validations())
        if code is None:
            if not running.trial.is_hopeless():
                return False
            running.process.kill()
            running.process.wait()
            self._search.end(running.trial, "PRUNED", "the others were better at the same time")
        elif code == 0:
            self._search.complete(running.trial)
        elif code == EXIT_UNFIT:
            self._search.end(running.trial, "PRUNED", one_line(running.folder.last_words(), 300))
        else:
            self._fail(running)
        self._tell(running)
        return True

    def _fail(self, running: _Running) -> None:
        words = one_line(running.folder.last_words(), 300)
        self._search.end(running.trial, "FAIL", words or f"exit code {running.process.returncode}")
        states = [record.state for record in self._search.records()]
        if states.count("failed") >= _HOPELESS and "complete" not in states and "pruned" not in states:
            raise DataError(
                f"expected trainings that come to their end, found {states.count('failed')} that failed and"
                f" no other; the last one said: {words}",
                where=running.folder.log,
            )

    def _tell(self, running: _Running) -> None:
        record, best = self._search.records()[running.trial.number], self._search.best
        is_best = best is not None and best.number == record.number
        score = "no score" if record.score is None else f"score {record.score:.4f}"
        beside = f"; best {best.score:.4f} of trial {best.number + 1}" if best else ""
        why = f" ({record.reason})" if record.reason else ""
        _logger.info("tune | trial %d is %s: %s%s%s", record.number + 1, record.state, score, beside, why)
        if record.state == "failed":  # the failure is not due to its values: keep its checkpoints
            _logger.warning("tune | its unfinished training stays in %s", running.folder.work)
            return
        running.folder.clear(keep_model=is_best)
        for other in self._search.records() if is_best else ():
            if other.number != record.number and other.state == "complete":
                self.trial_folder(other.number).clear(keep_model=False)

    def _stop_all(self) -> None:
        for running in self._running:
            running.process.terminate()
        deadline = time.monotonic() + _PATIENCE
        for running in self._running:
            try:
                running.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()


def worker_environment(slot: int, workers: int) -> dict[str, str]:
    """Return environment variables that limit a training's resources, for concurrent trainings.

    CPU threads are divided and GPUs are assigned in turn; a shared GPU's memory is allocated on demand.
    Variables that are already set are kept. The slot is the worker's number, from 0.
    """
    if workers == 1:
        return {}
    threads = str(max(1, len(os.sched_getaffinity(0)) // workers))
    found = {"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads, "OMP_NUM_THREADS": threads}
    found = {name: value for name, value in found.items() if name not in os.environ}
    devices = visible_gpus()
    if devices:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(devices[slot::workers]) or devices[slot % len(devices)]
        found["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    return found


def visible_gpus() -> list[str]:
    """Return the GPUs in CUDA_VISIBLE_DEVICES, or all NVIDIA GPUs without it."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [device.strip() for device in named.split(",") if device.strip() not in ("", "-1")]
    return [str(i) for i in range(len(glob.glob("/dev/nvidia[0-9]*")))]
