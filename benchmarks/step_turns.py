"""Processor time of a training step in two or more checkouts or environments, which take turns.

    python -m benchmarks.step_turns NAME[=CHECKOUT][,VARIABLE=VALUE...] ... [--steps 10] [--batch 8]

Each contender is a child process that runs our step of `benchmarks.training_step`, from the checkout it
names or else this one, with the variables it names. One step of each is run at a time, so that other load
falls on all alike. The first contender is what the others are compared with:

    git worktree add /tmp/before v1.0
    python -m benchmarks.step_turns before=/tmp/before now
    python -m benchmarks.step_turns system,TF_CPU_ALLOCATOR_USE_BFC=false kept,TF_CPU_ALLOCATOR_USE_BFC=true
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve()
_DEPTH, _CLASSES = 1.0, 90


class Contender:
    """A process that makes a step whenever it is asked to.

    Attributes:
        name: of the contender.
        first: what it tells of its first step.
        steps: what it tells of the others.
    """

    def __init__(self, spec: str, batch: int, size: int) -> None:
        head, *settings = spec.split(",")
        self.name, _, checkout = head.partition("=")
        root = checkout or str(_HERE.parent.parent)
        path = os.pathsep.join((root, os.path.join(root, "pipeline", "api")))
        environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment |= dict(setting.split("=", 1) for setting in settings)
        self._process = subprocess.Popen(
            [sys.executable, str(_HERE), "worker", str(batch), str(size)],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first: dict[str, float] = {}
        self.steps: list[dict[str, float]] = []

    def compile(self) -> None:
        """Wait until the process is ready for steps."""
        self.first = self._told()

    def step(self) -> None:
        """Make a step and keep what it took."""
        assert self._process.stdin is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        self.steps.append(self._told())

    def end(self) -> None:
        """Leave the process."""
        self._process.communicate()

    def _told(self) -> dict[str, float]:
        assert self._process.stdout is not None
        found: dict[str, float] = json.loads(self._process.stdout.readline())
        return found

    def result(self, base: Contender) -> dict[str, Any]:
        """Sum up, beside the contender that all are compared with."""
        pairs = zip(base.steps, self.steps, strict=True)
        return {
            "cpu_s": round(statistics.median(step["cpu_s"] for step in self.steps), 3),
            "of_it_system_s": round(statistics.median(step["system_s"] for step in self.steps), 3),
            "wall_s": round(statistics.median(step["wall_s"] for step in self.steps), 3),
            "times_faster": round(statistics.median(a["cpu_s"] / b["cpu_s"] for a, b in pairs), 2),
            "first_step_cpu_s": round(self.first["cpu_s"], 1),
            "first_step_s": round(self.first["wall_s"], 1),
            "peak_gb": round(self.steps[-1]["peak_gb"], 2),
        }


def worker(batch: int, size: int) -> None:
    """Make a step for each line of standard input, and tell its cost on standard output."""
    from benchmarks.training_step import CONFIG, build, make_batch, ours

    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    arguments = argparse.Namespace(config=str(CONFIG), size=size, depth=_DEPTH, classes=_CLASSES)
    step = ours(build(arguments), make_batch(batch, size, _CLASSES))

    def measured() -> None:
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        step()
        after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - began
        system = after.ru_stime - before.ru_stime
        cost = {
            "cpu_s": after.ru_utime - before.ru_utime + system,
            "system_s": system,
            "wall_s": wall,
            "peak_gb": after.ru_maxrss * 1024 / 1e9,
        }
        print(json.dumps(cost), file=told, flush=True)

    measured()
    step()
    for _ in sys.stdin:
        measured()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("contenders", nargs="+", metavar="NAME[=CHECKOUT][,VARIABLE=VALUE...]")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=320)
    arguments = parser.parse_args()
    contenders = [Contender(spec, arguments.batch, arguments.size) for spec in arguments.contenders]
    for contender in contenders:
        contender.compile()
    for _ in range(arguments.steps):
        for contender in contenders:
            contender.step()
    for contender in contenders:
        contender.end()
    found = {contender.name: contender.result(contenders[0]) for contender in contenders}
    print(json.dumps({"batch": arguments.batch, "size": arguments.size, **found}, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*map(int, sys.argv[2:]))
    else:
        main()
