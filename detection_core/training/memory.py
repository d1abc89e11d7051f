"""Memory of this process and its devices. Only the functions on GPUs import TensorFlow."""

from __future__ import annotations

import dataclasses
import os
import resource
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


PEAK_MEMORY = "peak_memory_bytes"
"""Name of `peak_host_memory` in records."""


def host_memory() -> int:
    """Return the bytes that this process holds now; where the system does not tell, the most it ever held."""
    return held_memory() or peak_host_memory()


def peak_host_memory() -> int:
    """Return the most bytes that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def device_memory() -> int:
    """Return the bytes of tensors on the fullest of the GPUs; 0 without one."""
    return _fullest("current")


def peak_device_memory() -> int:
    """Return the most bytes that tensors of this process ever took on one of the GPUs; 0 without one."""
    return _fullest("peak")


def _fullest(when: str) -> int:
    import tensorflow as tf

    found = (_allocated(device.name, when) for device in tf.config.list_logical_devices("GPU"))
    return max(found, default=0)


def _allocated(name: str, when: str) -> int:
    import tensorflow as tf

    try:
        return int(tf.config.experimental.get_memory_info(name)[when])
    except (ValueError, KeyError, tf.errors.OpError):
        return 0  # a device whose allocator does not count


_KEEP, _LIMIT_MB = "TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB"
# Of NVIDIA, AMD, and NVIDIA under Windows' Linux.
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")

# What a training holds beside tensors: TensorFlow's code, and the graphs of a MobileNet V2's update for four
# sizes of batches, took 0.98 GB.
_CODE = 1 << 30


def keep_host_memory() -> None:
    """Let TensorFlow keep the memory of tensors on processors, with the allocator that it has for GPUs.

    Otherwise each tensor of some megabytes is memory that the system maps and clears anew, page by page: a
    third of a training step's processor time in a virtual machine. What is kept counts as this process's
    memory until it ends.

    Tensors take no more than what is left to this process, so that one too many is an error, as on a GPU,
    where the system would end the process.

    Call it before TensorFlow makes its first tensor; later it has no effect. Nothing changes where the
    variables of the environment are set, nor on a machine with a GPU: there processors only feed it, with
    many small tensors from many threads, which would wait for one another.
    """
    if any(map(os.path.exists, _GPU_DEVICES)):
        return
    os.environ.setdefault(_KEEP, "true")
    # TensorFlow's own limit is 64 GiB, whatever there is.
    os.environ.setdefault(_LIMIT_MB, str(_for_tensors() >> 20))


def _for_tensors() -> int:
    """Return the bytes that are left beside the code of TensorFlow and its graphs."""
    memory = available_memory() or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return memory - min(_CODE, memory // 2)
