"""How much memory this process may take before the system ends it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

_RECLAIMED = ("inactive_file", "total_inactive_file")  # of cgroup 2, of cgroup 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class System:
    """Where the kernel tells of memory.

    Attributes:
        proc: its view of processes.
        cgroup: of groups of processes, such as containers, https://docs.kernel.org/admin-guide/cgroup-v2.html.
    """

    proc: str = "/proc"
    cgroup: str = "/sys/fs/cgroup"


THIS_SYSTEM = System()


def available_memory(system: System = THIS_SYSTEM) -> int:
    """Return the bytes that this process may hold in all, those that it holds included.

    It is the least of what the machine has left and of what each group that the process is in has left; pages
    of files that are read no more count as left, as the kernel gives them up first.

    Returns:
        0 where the kernel does not tell.
    """
    held = _held(system)
    left = [*_left_in_machine(system), *_left_in_groups(system)]
    return max(0, min(left)) + held if left else 0


def _held(system: System) -> int:
    pages = _read(system.proc, "self", "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def _left_in_machine(system: System) -> Iterator[int]:
    found = _table(_read(system.proc, "meminfo").replace(":", " "))
    if "MemAvailable" in found:
        yield found["MemAvailable"] * 1024


def _left_in_groups(system: System) -> Iterator[int]:
    for line in _read(system.proc, "self", "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            yield from _left_above(system.cgroup, path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root = os.path.join(system.cgroup, "memory")
            yield from _left_above(root, path, "memory.limit_in_bytes", "memory.usage_in_bytes")


def _left_above(root: str, path: str, limit_name: str, usage_name: str) -> Iterator[int]:
    """Look at a group and at those that it is in; in a container the path may be that of the machine."""
    names = [name for name in path.split("/") if name]
    for depth in range(len(names), -1, -1):
        folder = os.path.join(root, *names[:depth])
        limit, usage = _read(folder, limit_name).strip(), _read(folder, usage_name).strip()
        if limit.isdigit() and usage.isdigit():
            stat = _table(_read(folder, "memory.stat"))
            reclaimed = max((stat.get(name, 0) for name in _RECLAIMED), default=0)
            yield int(limit) - int(usage) + reclaimed


def _table(text: str) -> dict[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _read(*path: str) -> str:
    try:
        with open(os.path.join(*path), encoding="utf-8") as f:
            return f.read()
    except (OSError, UnicodeDecodeError):
        return ""
