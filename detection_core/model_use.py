"""Announce the model that native code uses, so that a supervisor can limit its time and memory.

The command line listens in a supervised process. In a library there is no listener.
"""

import contextlib
from collections.abc import Callable, Iterator

listener: Callable[[str], None] | None = None
"""Receives the path of a model before native code uses it, and "" afterwards."""


@contextlib.contextmanager
def model_in_use(path: str) -> Iterator[None]:
    """Announce a model during a `with` block, which must contain only native work on it."""
    listen = listener
    if listen is None:
        yield
        return
    listen(path)
    try:
        yield
    finally:
        listen("")
