"""How much memory this process holds, and may take before the system ends it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import NamedTuple

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
    left = [group.limit - group.usage + group.reclaimed for group in _groups(system)]
    left += [found for found in [_of_machine(system, "MemAvailable")] if found is not None]
    return max(0, min(left)) + held_memory(system) if left else 0


def allowed_memory(system: System = THIS_SYSTEM) -> int:
    """Return the bytes that this process might hold with the machine, and its container, to itself.

    Returns:
        0 where the kernel does not tell.
    """
    limits = [total_memory(system), *(group.limit for group in _groups(system))]
    return min((limit for limit in limits if limit), default=0)


def total_memory(system: System = THIS_SYSTEM) -> int:
    """Return the bytes of memory that the machine has; 0 where the kernel does not tell."""
    return _of_machine(system, "MemTotal") or 0


def held_memory(system: System = THIS_SYSTEM) -> int:
    """Return the bytes that this process holds now; 0 where the kernel does not tell."""
    pages = _read(system.proc, "self", "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def _of_machine(system: System, name: str) -> int | None:
    found = _table(_read(system.proc, "meminfo").replace(":", " "))
    return found[name] * 1024 if name in found else None


class _Group(NamedTuple):
    """A group of processes that has a limit: all in bytes."""

    limit: int
    usage: int
    reclaimed: int


def _groups(system: System) -> Iterator[_Group]:
    for line in _read(system.proc, "self", "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            yield from _limited(system.cgroup, path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root = os.path.join(system.cgroup, "memory")
            yield from _limited(root, path, "memory.limit_in_bytes", "memory.usage_in_bytes")


def _limited(root: str, path: str, limit_name: str, usage_name: str) -> Iterator[_Group]:
    """Look at a group and at those that it is in; in a container the path may be that of the machine."""
    names = [name for name in path.split("/") if name]
    for depth in range(len(names), -1, -1):
        folder = os.path.join(root, *names[:depth])
        limit, usage = _read(folder, limit_name).strip(), _read(folder, usage_name).strip()
        if limit.isdigit() and usage.isdigit():
            stat = _table(_read(folder, "memory.stat"))
            reclaimed = max((stat.get(name, 0) for name in _RECLAIMED), default=0)
            yield _Group(int(limit), int(usage), reclaimed)


def _table(text: str) -> dict[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _read(*path: str) -> str:
    try:
        with open(os.path.join(*path), encoding="utf-8") as f:
            return f.read()
    except (OSError, UnicodeDecodeError):
        return ""
