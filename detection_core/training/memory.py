"""What this process holds in memory, for people who watch a training."""

from __future__ import annotations

import os
import resource

import tensorflow as tf

_STATM = "/proc/self/statm"


def host_memory() -> int:
    """Return the bytes that this process holds now; where the system does not tell, the most it ever held."""
    try:
        with open(_STATM, encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def device_memory() -> int:
    """Return the bytes of tensors on the fullest of the GPUs; 0 without one."""
    found = (_allocated(device.name) for device in tf.config.list_logical_devices("GPU"))
    return max(found, default=0)


def _allocated(name: str) -> int:
    try:
        return int(tf.config.experimental.get_memory_info(name)["current"])
    except (ValueError, KeyError, tf.errors.OpError):
        return 0  # a device whose allocator does not count
