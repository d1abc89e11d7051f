"""A page that is updated during a run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_logger = logging.getLogger(__name__)

SECONDS = 20.0
"""Minimum seconds between two versions of the page."""
_SHARE = 0.05
"""Maximum share of the run's time for writing the page."""


class LiveReport:
    """Writes a page repeatedly during a `with` block, in a thread.

    Args:
        write: writes the page; its errors end the updates, not the run.
        seconds: minimum interval; longer if writing is slow.
    """

    def __init__(self, write: Callable[[], None], *, seconds: float = SECONDS) -> None:
        self._write, self._seconds = write, seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="report", daemon=True)

    def __enter__(self) -> LiveReport:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop after the version that is being written."""
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        pause = self._seconds / 4  # so that the page does not delay the end of a short run
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                self._write()
            except Exception:
                _logger.exception("report | cannot be kept up to date; it is written when the run has ended")
                return
            pause = max(self._seconds, (time.monotonic() - began) / _SHARE)
