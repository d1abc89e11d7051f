"""A page that is kept up to date while a run goes on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_logger = logging.getLogger(__name__)

SECONDS = 20.0
"""Between two versions of the page, at least."""
_SHARE = 0.05
"""Of the time of the run, which writing the page may take."""


class LiveReport:
    """Writes a page again and again for the length of a `with` block, in a thread.

    Args:
        write: writes the page; an error of it ends the writing, not the run.
        seconds: between two versions, at least; more where writing takes long.
    """

    def __init__(self, write: Callable[[], None], *, seconds: float = SECONDS) -> None:
        self._write, self._seconds = write, seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="report", daemon=True)

    def __enter__(self) -> LiveReport:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """End, after the version that is being written."""
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        pause = self._seconds / 4  # a run that fails at once is not held up by its page
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                self._write()
            except Exception:
                _logger.exception("report | cannot be kept up to date; it is written when the run has ended")
                return
            pause = max(self._seconds, (time.monotonic() - began) / _SHARE)
