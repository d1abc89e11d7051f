"""A bound for the memory that a piece of a test takes."""

import contextlib
import tracemalloc
from collections.abc import Iterator


@contextlib.contextmanager
def memory_below(most: int) -> Iterator[None]:
    """Fail when Python objects of more bytes than these are held at once in a `with` block."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak:,} bytes, expected fewer than {most:,}"
