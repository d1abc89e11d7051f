"""Print the progress of Model Maker's calls, independent of logging."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TextIO

_OURS = ("detection_core", "detflow")


class _Printed(logging.StreamHandler[TextIO]):
    """Prints info messages; passes warnings to the root logger."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            logging.root.handle(record)
        else:
            super().emit(record)


@contextlib.contextmanager
def shown_progress() -> Iterator[None]:
    """Print progress during a `with` block, unless a log shows it.

    Model Maker printed Keras' progress, independent of logging. Its tutorials set logging to errors only, and
    notebooks hide info messages by default.
    """
    with contextlib.ExitStack() as stack:
        for name in _OURS:
            logger = logging.getLogger(name)
            if not (logger.isEnabledFor(logging.INFO) and logger.hasHandlers()):
                stack.enter_context(_printing(logger))
        yield


@contextlib.contextmanager
def _printing(logger: logging.Logger) -> Iterator[None]:
    handler, level, propagate = _Printed(sys.stdout), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
