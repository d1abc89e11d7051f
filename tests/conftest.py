"""What every test has in common."""

import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest

from detection_core.quick_imports import import_quickly
from pipeline.local import UNUSED_BY_TFX

# A shell without job control lets what it starts in the background ignore Ctrl-C, and programs inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A forked child has none of the threads that destructors of TensorFlow's iterators wait for.
os.register_at_fork(after_in_child=gc.disable)

# As every process of ours does; nothing has imported TensorFlow yet.
import_quickly(UNUSED_BY_TFX)

pytest_plugins = ["tests.support.suite"]

_LEVELS = {
    logger: (logger.level, logger.propagate)
    for logger in map(logging.getLogger, (None, "detection_core", "detflow", "tensorflow"))
}


def _reset_levels() -> None:
    for logger, (level, propagate) in _LEVELS.items():
        logger.setLevel(level)
        logger.propagate = propagate


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undo what a test sets: a verb run in the process sets levels and handlers of the whole process.

    Levels are reset before a test too: a fixture of a module, which may run a verb, is made before this one.
    """
    _reset_levels()
    handlers = [(logger, logger.handlers[:]) for logger in _LEVELS]
    yield
    _reset_levels()
    for logger, ones in handlers:
        logger.handlers[:] = ones
