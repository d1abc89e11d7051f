"""Several calls at once."""

import threading
from collections.abc import Callable, Iterable
from typing import Any


def at_once(given: Iterable[Any], call: Callable[[Any], Any], seconds: float = 60) -> list[Any]:
    """Call a function with each of some values, each in a thread; return what they gave, as it came."""
    found: list[Any] = []
    threads = [threading.Thread(target=lambda value=value: found.append(call(value))) for value in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert len(found) == len(threads), "a call has failed or has not ended"
    return found
