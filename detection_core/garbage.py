"""Pause garbage collection while many long-lived objects are created."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Pause garbage collection, which would scan millions of new objects repeatedly without result.

    Unreferenced objects are still freed; only reference cycles stay until the end.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
