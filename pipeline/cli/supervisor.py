"""Run verbs that open models in a forked process, and report its crash as one error.

A model may loop forever, exhaust the memory or crash in native code. So the process forks before heavy
imports. The child runs the verb; the parent watches it and returns its exit code.
"""

import contextlib
import ctypes
import math
import mmap
import os
import re
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from detection_core import model_use
from detection_core.errors import ConfigError, DetectionError, ModelError
from pipeline import interruption
from pipeline.console import write_error

VERBS = frozenset({
    "predict", "select", "evaluate", "bench", "export", "compare", "export-saved-model", "import",
    "sensitivity",
})  # fmt: skip
"""Verbs that run a SavedModel, or read weights of an untrusted model."""
SECONDS, GIGABYTES = "DETFLOW_MODEL_SECONDS", "DETFLOW_MODEL_GB"
_SECONDS = 120.0
_MEMORY_SHARE = 0.8  # of the available memory; the rest is for other programs
_POLL = 0.1
# The terminal signals both processes, `kill` only the supervisor.
_GRACE = 0.5
_LONGEST_TICK = 1.0  # time while stopped by Ctrl-Z is not counted
_HANDED_ON = (signal.SIGINT, signal.SIGTERM)
_NATIVE_ENDS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGKILL)
_PR_SET_PDEATHSIG = 1


def supervise(words: Sequence[str]) -> int | None:
    """Fork: the child returns None and runs the verb, the parent returns its exit code.

    Returns:
        None also without a fork: the verb opens no model, the system cannot fork, or TensorFlow is imported.
        A fork would lose TensorFlow's threads.
    """
    if not words or words[0] not in VERBS or not hasattr(os, "fork") or "tensorflow" in sys.modules:
        return None
    as_json = any(len(word) > 2 and "--json".startswith(word) for word in words)
    try:
        seconds, most_bytes = _number(SECONDS, _SECONDS), int(_number(GIGABYTES, 0.0) * 1e9)
    except ConfigError as error:
        return write_error(error, as_json=as_json)
    board, parent = _Board.from_buffer(mmap.mmap(-1, ctypes.sizeof(_Board))), os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*_HANDED_ON, signal.SIGCHLD))
    try:
        child = os.fork()
    except OSError:  # no more processes
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return None
    if child == 0:
        _end_with(parent)
        model_use.listener, interruption.listener = board.note_model, board.note_signal
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return None
    supervisor = _Supervisor(child, board, seconds, most_bytes)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        return supervisor.wait()
    except DetectionError as error:
        error = error if error.where else ModelError(error.message, where=f"detflow {words[0]}")
        return write_error(error, as_json=as_json)


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable)
    try:
        number = float(text) if text else default
    except ValueError:
        number = math.nan
    if not (text is None or text == "" or 0 < number < math.inf):
        raise ConfigError(f"expected a number above 0, found {text!r}; unset or mend it", where=variable)
    return number


def _end_with(parent: int) -> None:
    """Let the system kill this process when its parent ends; Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


class _Board(ctypes.Structure):
    """The child's notes, in shared memory that outlives the child.

    Attributes:
        uses: number of begun and ended uses of a model: odd during a use.
        signalled: time of the last signal, on the clock shared by both processes.
    """

    uses: int
    signalled: float
    _path: bytes
    _fields_ = (("uses", ctypes.c_uint64), ("signalled", ctypes.c_double), ("_path", ctypes.c_char * 2000))

    def note_model(self, path: str) -> None:
        """Record that the use of a model begins, or with "" that it ends."""
        self._path = os.fsencode(path)[:2000] or self._path
        self.uses += 1

    def note_signal(self, number: int) -> None:
        self.signalled = time.monotonic()

    @property
    def model(self) -> str:
        """The last model in use, or ""."""
        return os.fsdecode(self._path)


class _Supervisor:
    """Waits for the child, forwards signals, and kills it beyond its limits.

    A model may take some seconds, and some bytes of memory; 0: a share of the available memory.
    """

    def __init__(self, child: int, board: _Board, seconds: float, most_bytes: int) -> None:
        self._child, self._board = child, board
        self._seconds, self._most_bytes = seconds, most_bytes
        self._uses, self._spent, self._most_memory = 0, 0.0, 0
        self._signals, writing = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in _HANDED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored in background jobs of a shell
                signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def wait(self) -> int:
        """Return the child's exit code, or end by its signal; ModelError after a crash or exceeded limit."""
        received: list[tuple[float, int]] = []
        before = time.monotonic()
        while True:
            select.select([self._signals], [], [], _POLL)
            now = time.monotonic()
            with contextlib.suppress(BlockingIOError):
                received += [(now, n) for n in os.read(self._signals, 512) if n in _HANDED_ON]
            done, status = os.waitpid(self._child, os.WNOHANG)
            if done:
                return self._ended(os.waitstatus_to_exitcode(status))
            for at, number in [due for due in received if due[0] < now - _GRACE]:
                received.remove((at, number))
                if self._board.signalled < at - _GRACE:
                    os.kill(self._child, number)
            self._check_use(min(now - before, _LONGEST_TICK))
            before = now

    def _check_use(self, seconds: float) -> None:
        """Kill the child if a model's use exceeds the limits of time or memory."""
        uses = self._board.uses
        memory = _own_memory(self._child)
        if uses != self._uses:
            self._uses, self._spent = uses, 0.0
            free = _available()
            self._most_memory = self._most_bytes or (int(_MEMORY_SHARE * (free + memory)) if free else 0)
        if uses % 2 == 0:
            return
        self._spent += seconds
        if self._spent > self._seconds:
            found = f"that has not come back after {self._seconds:g} seconds"
            self._end(found, f"{SECONDS} if it is only slow")
        if memory > self._most_memory > 0:
            most = f"{self._most_memory / 1e9:.1f} GB of memory"
            self._end(f"that takes more than {most}", f"{GIGABYTES} if it needs them")

    def _end(self, found: str, remedy: str) -> None:
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
        raise ModelError(
            f"expected a model that can be loaded and run, found one {found}; do not use it if you do not"
            f" know its origin; otherwise raise {remedy}",
            where=self._board.model,
        )

    def _ended(self, code: int) -> int:
        if code >= 0:
            return code
        if -code not in _NATIVE_ENDS:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
            return 128 - code  # PID 1 of a container survives the signal
        name = signal.Signals(-code).name
        if -code == signal.SIGKILL:
            found, remedy = "was killed, as by the system when memory runs out", "give it more memory"
        else:
            found, remedy = f"was ended by native code ({name})", "check the files given, or make them again"
        raise ModelError(
            f"expected the process to end by itself, found that it {found}; {remedy}", where=self._board.model
        )


def _own_memory(process: int) -> int:
    """Return the bytes of memory that a process does not share with files; 0 if unknown."""
    with contextlib.suppress(OSError, ValueError):
        _, resident, shared, *_ = Path(f"/proc/{process}/statm").read_text().split()
        return (int(resident) - int(shared)) * mmap.PAGESIZE
    return 0


def _available() -> int:
    with contextlib.suppress(OSError):
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        return int(found[1]) << 10 if found else 0
    return 0
