"""Run pytest in forks of a process that imported the large libraries once.

Each line of standard input is a JSON object with the `arguments` of pytest and the `seconds` that it may
take. Each line of standard output answers with its exit `code`, null where it was out of time, and `output`.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path


def main(modules: Sequence[str]) -> None:
    """Import these modules, then serve until standard input ends."""
    import pytest

    for name in modules:
        importlib.import_module(name)
    for request in sys.stdin:
        asked = json.loads(request)
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            child = os.fork()
            if not child:
                os.setsid()
                for stream in (1, 2):
                    os.dup2(log.fileno(), stream)
                code = pytest.main(asked["arguments"])
                sys.stdout.flush()
                os._exit(code)
            code = _wait(child, asked["seconds"])
            answer = {"code": code, "output": Path(log.name).read_text(encoding="utf-8", errors="replace")}
        print(json.dumps(answer), flush=True)


def _wait(child: int, seconds: float) -> int | None:
    """Return the exit code, or nothing where the time is over; end what the child has left in its group."""
    end = time.monotonic() + seconds
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended and time.monotonic() < end:
        time.sleep(0.05)
        ended, status = os.waitpid(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if ended:
        return os.waitstatus_to_exitcode(status)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
