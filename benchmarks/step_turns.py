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
import sys
from pathlib import Path
from typing import Any

from benchmarks.turns import Contender, serve, take_turns

_HERE = Path(__file__).resolve()
_DEPTH, _CLASSES = 1.0, 90


def contender(spec: str, batch: int, size: int) -> Contender:
    """Start the process of a contender."""
    head, *settings = spec.split(",")
    name, _, checkout = head.partition("=")
    command = [sys.executable, str(_HERE), "worker", str(batch), str(size)]
    variables = dict(setting.split("=", 1) for setting in settings)
    return Contender(name, command, root=checkout or str(_HERE.parent.parent), **variables)


def result(own: Contender, base: Contender) -> dict[str, Any]:
    """Sum up, beside the contender that all are compared with."""
    return {
        "cpu_s": round(own.median("cpu_s"), 3),
        "of_it_system_s": round(own.median("system_s"), 3),
        "wall_s": round(own.median("wall_s"), 3),
        "times_faster": round(base.ratio(own), 2),
        "first_step_cpu_s": round(own.first["cpu_s"], 1),
        "first_step_s": round(own.first["wall_s"], 1),
        "peak_gb": round(own.turns[-1]["peak_gb"], 2),
    }


def worker(batch: int, size: int) -> None:
    """Make a step for each line of standard input, and write its cost to standard output."""
    from benchmarks.training_step import CONFIG, build, make_batch, ours

    arguments = argparse.Namespace(config=str(CONFIG), size=size, depth=_DEPTH, classes=_CLASSES)
    serve(lambda: ours(build(arguments), make_batch(batch, size, _CLASSES)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("contenders", nargs="+", metavar="NAME[=CHECKOUT][,VARIABLE=VALUE...]")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=320)
    arguments = parser.parse_args()
    contenders = [contender(spec, arguments.batch, arguments.size) for spec in arguments.contenders]
    take_turns(contenders, arguments.steps)
    found = {each.name: result(each, contenders[0]) for each in contenders}
    print(json.dumps({"batch": arguments.batch, "size": arguments.size, **found}, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*map(int, sys.argv[2:]))
    else:
        main()
