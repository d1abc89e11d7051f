"""Memory of this process and its devices. Only the GPU functions import TensorFlow."""

import contextlib
import dataclasses
import os
import resource
from collections.abc import Iterator
from typing import NamedTuple

_RECLAIMED = ("inactive_file", "total_inactive_file")  # of cgroup 2, of cgroup 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class System:
    """Paths of the kernel's memory information.

    Attributes:
        proc: of processes.
        cgroup: of control groups, such as containers, https://docs.kernel.org/admin-guide/cgroup-v2.html.
    """

    proc: str = "/proc"
    cgroup: str = "/sys/fs/cgroup"


THIS_SYSTEM = System()


def available_memory(system: System = THIS_SYSTEM) -> int:
    """Return the bytes that this process may use in total, including those it uses now; 0 where unknown.

    It is the minimum of what is free on the machine and in each control group of the process. Inactive file
    pages count as free, as the kernel reclaims them first.
    """
    left = [group.limit - group.usage + group.reclaimed for group in _groups(system)]
    left += [found for found in [_of_machine(system, "MemAvailable")] if found is not None]
    return max(0, min(left)) + held_memory(system) if left else 0


def allowed_memory(system: System = THIS_SYSTEM) -> int:
    """Return the bytes that this process could use alone on the machine and in its container; 0: unknown."""
    limits = [total_memory(system), *(group.limit for group in _groups(system))]
    return min((limit for limit in limits if limit), default=0)


def total_memory(system: System = THIS_SYSTEM) -> int:
    """Return the machine's memory in bytes; 0 where unknown."""
    return _of_machine(system, "MemTotal") or 0


def held_memory(system: System = THIS_SYSTEM) -> int:
    """Return the bytes that this process uses now; 0 where unknown."""
    pages = _read(system.proc, "self", "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def _of_machine(system: System, name: str) -> int | None:
    found = _table(_read(system.proc, "meminfo").replace(":", " "))
    return found[name] * 1024 if name in found else None


class _Group(NamedTuple):
    """All values in bytes."""

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
    """Yield a group and its ancestors; in a container, the path may be the host's."""
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
    """Return the bytes that this process uses now, or its peak where the system does not report that."""
    return held_memory() or peak_host_memory()


def peak_host_memory() -> int:
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def device_memory() -> int:
    """Return the bytes of tensors on the fullest GPU; 0 without one."""
    return _fullest("current")


def peak_device_memory() -> int:
    """Return the peak bytes of this process's tensors on one GPU; 0 without one."""
    return _fullest("peak")


def _fullest(when: str) -> int:
    import tensorflow as tf

    found = [0]
    for device in tf.config.list_logical_devices("GPU"):
        # A device's allocator may have no statistics.
        with contextlib.suppress(ValueError, KeyError, tf.errors.OpError):
            found.append(int(tf.config.experimental.get_memory_info(device.name)[when]))
    return max(found)


_KEEP, _LIMIT_MB = "TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB"
# NVIDIA, AMD, and NVIDIA under WSL.
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")

# Memory besides tensors: TensorFlow's code, and the graphs of a MobileNet V2's update for four batch sizes,
# took 0.98 GB.
_CODE = 1 << 30


def keep_host_memory() -> None:
    """Let TensorFlow keep CPU tensor memory for reuse, with the allocator that it has for GPUs.

    Otherwise the system maps and clears each tensor of some megabytes again, page by page. This took a third
    of a training step's CPU time in a virtual machine. Kept memory counts as this process's until it ends.

    Tensors may only use what is left to this process. Exceeding it raises an error, as on a GPU; otherwise
    the system would kill the process.

    Call it before TensorFlow creates its first tensor; later it has no effect. Nothing changes where the
    environment variables are set, or on a machine with a GPU. There, CPUs feed the GPU with many small
    tensors from many threads, which would block one another.
    """
    if any(map(os.path.exists, _GPU_DEVICES)):
        return
    os.environ.setdefault(_KEEP, "true")
    # TensorFlow's own limit is 64 GiB on every machine.
    memory = available_memory() or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # TensorFlow's code and its graphs need the rest.
    os.environ.setdefault(_LIMIT_MB, str((memory - min(_CODE, memory // 2)) >> 20))
