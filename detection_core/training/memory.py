"""What this process holds in memory, and the most that it held. Only what asks for GPUs needs TensorFlow."""

from __future__ import annotations

import resource

from detection_core.training.memory_limits import held_memory

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
