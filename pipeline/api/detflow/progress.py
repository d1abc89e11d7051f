"""Progress of Model Maker's calls, which show it whatever logging is set to."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

_REPORTS = "detection_core.progress"


@contextlib.contextmanager
def shown_progress() -> Iterator[None]:
    """Print progress meanwhile, where no log would show it.

    Model Maker's progress was Keras' and did not depend on logging. Its tutorials set logging to errors
    alone, and a notebook shows no information by default.
    """
    logger = logging.getLogger(_REPORTS)
    if logger.isEnabledFor(logging.INFO) and logger.hasHandlers():
        yield
        return
    handler = logging.StreamHandler(sys.stdout)
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
