"""Memory of tensors on processors: kept from one operation for the next, where TensorFlow gives it back."""

from __future__ import annotations

import os

from detection_core.training.memory_limits import available_memory

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
