"""End the program within seconds after Ctrl-C or SIGTERM, with one line.

Python's own exit takes several seconds once TensorFlow and Beam are loaded, and waits for threads.
"""

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from detection_core.python_process import descendants

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_CODES = tuple(128 + number for number in _SIGNALS)
"""Exit codes after these signals."""
_PATIENCE = 4.0
"""Seconds from a signal until the process is killed."""
_POLL = 0.1
_received: list[int] = []  # signals, in order
listener: Callable[[int], None] | None = None
"""Called with each signal that reaches this process, once or twice."""
_STOP_SIGNAL = "detection_core.training.stop_signal"


def run_program(main: Callable[[], int]) -> int:
    """Run a program and return its exit code; after a signal, end the process.

    The first signal raises KeyboardInterrupt or SystemExit in the main thread; the second one ends the
    process. A thread ends the process if the main thread stays in native code. Code that handles the signals
    itself, such as a training that saves its state, gets enough time. `main` returns the exit code, one of
    `EXIT_CODES` after an interruption.
    """
    try:
        _Signals().take_over()
        code = main()
    except (KeyboardInterrupt, SystemExit) as error:
        code = interrupted_by(error)
        if not code:
            raise
        print("interrupted", file=sys.stderr)
    if code in EXIT_CODES:
        _leave(code)
    return code


def interrupted_by(error: BaseException) -> int:
    """Return the exit code of a program stopped by a signal; 0 if no signal caused the error.

    Native code such as TensorFlow's replaces KeyboardInterrupt by other errors, so any error after a signal
    counts.
    """
    if isinstance(error, KeyboardInterrupt):
        return EXIT_CODES[0]
    if isinstance(error, SystemExit) and error.code in EXIT_CODES:
        return int(error.code or 0)
    return 128 + _received[0] if _received else 0


def _leave(code: int) -> NoReturn:
    """Remove temporary files and end the process."""
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    os._exit(code)


class _Signals:
    """Signal handlers, and the thread that ends the process."""

    def take_over(self) -> None:
        self._began = time.monotonic()
        self._terminal = os.dup(2)  # later on, file descriptor 2 may lead to a log
        self._reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored in background jobs of a shell
                signal.signal(number, self._stop)
        threading.Thread(target=self._watch, name="interruption", daemon=True).start()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        _received.append(number)
        _announce(number)
        if len(_received) > 1:
            self._kill(number, "")
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def _watch(self) -> None:
        """End the process some time after a signal, while the main thread is in native code."""
        held: Any = None
        for number in self._numbers():
            _announce(number)
            saving, owner = _active_stop_signal(), signal.getsignal(number)
            if saving is None and owner != self._stop:
                continue  # a scheduler stops its run and waits for it
            until = saving if saving is not None and saving is not held and not saving.at_once else None
            held = until or held
            threading.Thread(target=self._end_after, args=(number, until), daemon=True).start()

    def _numbers(self) -> Iterator[int]:
        while data := os.read(self._reading, 1):
            if data[0] in _SIGNALS:
                yield data[0]

    def _end_after(self, number: int, until: Any) -> None:
        while until is not None and _active_stop_signal() is until:
            time.sleep(_POLL)
        time.sleep(_PATIENCE)
        self._kill(number, ", before everything had ended")

    def _kill(self, number: int, note: str) -> NoReturn:
        seconds = time.monotonic() - self._began
        os.write(self._terminal, f"interrupted after {seconds:.1f} s{note}\n".encode())
        for child in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        os._exit(128 + number)


def _announce(number: int) -> None:
    if listener is not None:
        listener(number)


def _active_stop_signal() -> Any:
    active = getattr(sys.modules.get(_STOP_SIGNAL), "active", None)  # None during its import
    return active[-1] if active else None
