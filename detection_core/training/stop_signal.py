"""Handle SIGTERM and Ctrl-C: finish the step, save, exit."""

import logging
import signal
import threading
from types import FrameType
from typing import Any

_logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


active: "list[StopSignal]" = []
"""Active handlers, the innermost last."""


class StopSignal:
    """Records a stop signal during a `with` block, so that training does not stop within a step.

    A second signal has its usual effect at once. Outside the main thread, where Python allows no handlers,
    nothing is recorded.

    Args:
        at_once: exit at the first signal, too, until `at_once` is set to False.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.received = 0
        self.at_once = at_once
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopSignal":
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in _SIGNALS}
            active.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self._give_back()
        if self in active:
            active.remove(self)

    def _give_back(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._give_back()
        if self.at_once:
            self.leave()
        _logger.warning("stopping after this step, with a checkpoint (%s)", signal.Signals(number).name)

    def leave(self) -> None:
        """Exit as the signal would have, also if another worker received it.

        Raises:
            KeyboardInterrupt: after Ctrl-C.
            SystemExit: with 128 + the signal's number, after SIGTERM.
        """
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + (self.received or signal.SIGTERM))
