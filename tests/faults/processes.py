"""Processes that are killed, or whose changes fail: forked from one that has everything imported.

A change is what Python's audit events tell of before it is made: opening to write, renaming, removing, making
a folder, sending a request. TensorFlow's own writing is not among them; kills at a random moment reach it.
"""

import dataclasses
import datetime
import json
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from detection_core.errors import DetectionError, as_user_error

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "http.client.send"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
DONE, CRASHED, REFUSED = 0, 1, 2
_LIMIT_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a process ended."""

    code: int  # as `detflow`'s: 0 done, 2 one message, 1 a crash; negative: the signal that killed it
    seconds: float
    changes: int  # how many it made, of one that was not killed
    answer: Any  # what its function returned, of one that was done
    log: str  # its output's end


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """What is done to a process."""

    kill_at_change: int = 0  # end it before this change; 0: do not
    kill_after: float = _LIMIT_SECONDS
    at_moment: Callable[[], int] | None = None  # asked all the time; sends the first signal that is not 0
    fail_at_change: int = 0  # let this change fail
    error: int = 0  # with this number
    clock: float = 0.0  # seconds by which its clock is wrong


NO_FAULT = Fault()


def run_forked(function, scratch, fault=NO_FAULT):
    """Run a function in a child process; its result goes to the folder `scratch` and must be JSON."""
    scratch.mkdir(parents=True, exist_ok=True)
    log, answer = scratch / "log.txt", scratch / "answer.json"
    answer.unlink(missing_ok=True)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _be(function, log, answer, fault)
    status = _wait(child, began + fault.kill_after, fault.at_moment)
    seconds = time.monotonic() - began
    found = json.loads(answer.read_text()) if answer.exists() and status >= 0 else {}
    end = log.read_text(errors="replace")[-3000:] if log.exists() else ""
    return Ending(status, seconds, found.get("changes", 0), found.get("answer"), end)


def _wait(child, until, at_moment):
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        number = at_moment() if at_moment else 0
        if number:
            os.kill(child, number)
            at_moment = None
        time.sleep(0.001 if at_moment else 0.005)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _be(function, log, answer, fault):
    """Be the child: run, write the answer, leave; never return."""
    code, result, counted = CRASHED, None, [0]
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
        if fault.clock:
            _set_clock(fault.clock)
        sys.addaudithook(lambda event, arguments: _audit(event, arguments, fault, counted))
        result, code = function(), DONE
    except DetectionError as e:
        code = REFUSED
        print(e, file=sys.stderr)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else CRASHED
    except BaseException as e:
        known = as_user_error(e)
        code = CRASHED if known is None else REFUSED
        print(known or traceback.format_exc(), file=sys.stderr)
    finally:
        made, counted[0] = counted[0], -(10**9)
        answer.write_text(json.dumps({"changes": made, "answer": result}))
        sys.stderr.flush()
        os._exit(code)


def _audit(event, arguments, fault, counted):
    if event == "open":
        if isinstance(arguments[0], int) or not arguments[2] & _WRITING or str(arguments[0]) == os.devnull:
            return
    elif event not in _CHANGES:
        return
    counted[0] += 1
    if counted[0] == fault.kill_at_change:
        os.kill(os.getpid(), signal.SIGKILL)
    if counted[0] == fault.fail_at_change:
        raise OSError(fault.error, os.strerror(fault.error), str(arguments[0]))


def _set_clock(seconds):
    real, moment = time.time, datetime.datetime

    class Wrong(moment):
        @classmethod
        def now(cls, tz=None):
            return moment.fromtimestamp(time.time(), tz)

    time.time = lambda: real() + seconds
    datetime.datetime = Wrong  # type: ignore[misc]
