"""Child processes that do a piece of work in turns, and what each costs; standard library only.

Each contender is a process. One piece of work is done at a time, so that other load falls on all alike, and
processor time and memory are those of a single contender.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]


class Contender:
    """A process that works whenever it is asked to.

    Attributes:
        name: of the contender.
        missing: why it cannot run; "" if it can.
        first: what its first piece of work cost, with the memory before it, `ready_gb`.
        turns: what each later one cost.
    """

    def __init__(self, name: str, command: Sequence[str], *, root: str, **variables: str) -> None:
        """Start a process in a checkout, `root`, with further variables of the environment."""
        self.name = name
        # This module's own folder comes last, for checkouts that do not have it.
        path = os.pathsep.join((root, os.path.join(root, "pipeline", "api"), str(_ROOT)))
        self._process = subprocess.Popen(
            list(command),
            cwd=root,
            env={**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.missing = ""
        self.first: dict[str, float] = {}
        self.turns: list[dict[str, float]] = []

    def start(self) -> None:
        """Wait until the process is ready for turns."""
        found = self._answer()
        self.missing = str(found.get("missing", ""))
        if not self.missing:
            self.first = found

    def turn(self) -> None:
        """Have one piece of work done, and keep what it cost."""
        assert self._process.stdin is not None
        self._process.stdin.write("turn\n")
        self._process.stdin.flush()
        self.turns.append(self._answer())

    def end(self) -> None:
        """End the process."""
        self._process.communicate()

    def median(self, cost: str) -> float:
        """Return the median of a cost over the turns."""
        return statistics.median(turn[cost] for turn in self.turns)

    def ratio(self, base: Contender, cost: str = "cpu_s") -> float:
        """Return the median, over the pairs of turns, of the quotient of this one's cost and another's."""
        pairs = zip(self.turns, base.turns, strict=True)
        return statistics.median(own[cost] / other[cost] for own, other in pairs)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {"missing": "the process ended"}


def take_turns(contenders: Sequence[Contender], turns: int) -> None:
    """Start all contenders, let those that can run take turns, and end all."""
    for contender in contenders:
        contender.start()
    for _ in range(turns):
        for contender in contenders:
            if not contender.missing:
                contender.turn()
    for contender in contenders:
        contender.end()


def serve(make: Callable[[], Callable[[], object]], needs: str = "") -> None:
    """Make a piece of work, then do it for each line of standard input; write costs to standard output.

    `needs` names the packages of a peer. Without them, or if a peer cannot be made, it writes the reason.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Whatever else is printed.

    def answer(found: dict[str, Any]) -> None:
        print(json.dumps(found), file=answers, flush=True)

    try:
        work = make()
    except ImportError as error:
        if not needs:
            raise
        answer({"missing": f"{error}; install {needs}"})
        return
    ready = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    answer(measured(work) | {"ready_gb": ready})
    work()
    for _ in sys.stdin:
        answer(measured(work))


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Do a piece of work; return its seconds, and the process's peak memory in GB."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    work()
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - began
    system = after.ru_stime - before.ru_stime
    return {
        "cpu_s": after.ru_utime - before.ru_utime + system,
        "system_s": system,
        "wall_s": wall,
        "peak_gb": after.ru_maxrss * 1024 / 1e9,
    }
