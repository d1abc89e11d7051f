"""A local schedule: a process that waits for the next slot and runs the workflow in a child process.

One run at a time. A slot is skipped if a run is active, or if it was missed (the machine slept, the clock was
set). Slots follow the machine's clock.
"""

import contextlib
import dataclasses
import datetime
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from detection_core.errors import ConfigError
from detection_core.python_process import python_environment
from detection_core.storage import files, local_lock
from pipeline.schedule.trigger import Trigger

_logger = logging.getLogger(__name__)

# Maximum delay until a changed clock or a sleep is noticed.
_NAP_SECONDS = 30.0
_LATEST_SECONDS = 2 * _NAP_SECONDS
"""A slot noticed later than this was missed; even a loaded machine is faster."""


@dataclasses.dataclass(eq=False)
class LocalSchedule:
    """Runs a command whenever a trigger fires, until it is stopped.

    The command gets the slot as `--scheduled-time`. A slot is skipped while a run is active.

    SIGTERM and SIGINT stop it. An active run is interrupted as by Ctrl-C: it is recorded as stopped, and the
    next one resumes from its checkpoint. A second signal kills the run.
    """

    trigger: Trigger
    command: Sequence[str]
    workspace: str
    is_running: Callable[[], bool]
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._run: subprocess.Popen | None = None

    def serve(self, max_runs: int = 0) -> int:
        """Wait and run until stopped, the trigger's end, or `max_runs` (0: no limit); return their number.

        Raises:
            ConfigError: when another scheduler uses the workspace.
        """
        made = 0
        with self.exclusive(), self._signals():
            while not self._stopped.is_set() and not (max_runs and made >= max_runs):
                slot = self.trigger.next_after(self.now())
                if slot is None:
                    _logger.info("schedule | its end is reached")
                    break
                _logger.info("schedule | next run %s", slot.isoformat(timespec="seconds"))
                if not self._sleep_until(slot):
                    break
                made += self._start(slot)
        return made

    def _sleep_until(self, slot: datetime.datetime) -> bool:
        """Wait for a slot; False if the scheduler was stopped."""
        while True:
            left = (slot - self.now()).total_seconds()
            if left <= 0:
                return not self._stopped.is_set()
            if self._stopped.wait(min(left, _NAP_SECONDS)):
                return False

    def _start(self, slot: datetime.datetime) -> int:
        """Run once; return 0 if another run is active, or the slot was missed."""
        if self.is_running():
            _logger.warning("schedule | slot %s left out: a run is under way", slot.isoformat())
            return 0
        late = (self.now() - slot).total_seconds()
        if late > _LATEST_SECONDS:
            _logger.warning(
                "schedule | slot %s left out: it is over by %.0f s; the machine slept, or its clock was set",
                slot.isoformat(),
                late,
            )
            return 0
        begun = time.monotonic()
        slot_text = slot.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # RFC 3339
        # In a separate session Ctrl-C at the terminal reaches the run only through this process, once.
        self._run = subprocess.Popen(
            [*self.command, "--scheduled-time", slot_text], env=python_environment(), start_new_session=True
        )
        if self._stopped.is_set():
            self._run.send_signal(signal.SIGINT)
        code = self._run.wait()
        self._run = None
        took = time.monotonic() - begun
        if code == 0:
            _logger.info("schedule | run done in %.0f s", took)
        elif self._stopped.is_set():
            _logger.info("schedule | run stopped after %.0f s", took)
        else:
            _logger.error("schedule | run failed with exit code %d; the next slot tries again", code)
        return 1

    def _stop(self, number: int, frame: FrameType | None) -> None:
        run = self._run
        if run is not None:
            run.send_signal(signal.SIGKILL if self._stopped.is_set() else signal.SIGINT)
        self._stopped.set()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        before = {s: signal.signal(s, self._stop) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Lock the workspace against a second scheduler; the lock of a killed one is released."""
        files.make_dirs(self.workspace)
        busy = ConfigError(
            "expected no other scheduler here, found one; stop it, or take another workspace",
            where=self.workspace,
        )
        return local_lock.lock(os.path.join(self.workspace, ".schedule.lock"), busy)
