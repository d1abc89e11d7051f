"""Memory of tensors on processors: kept from one operation for the next, where TensorFlow gives it back."""

from __future__ import annotations

import os

_KEEP, _LIMIT_MB = "TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB"
# Of NVIDIA, AMD, and NVIDIA under Windows' Linux.
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


def keep_host_memory() -> None:
    """Let TensorFlow keep the memory of tensors on processors, with the allocator that it has for GPUs.

    Otherwise each tensor of some megabytes is memory that the system maps and clears anew, page by page: a
    third of a training step's processor time in a virtual machine. What is kept counts as this process's
    memory until it ends.

    Call it before TensorFlow makes its first tensor; later it has no effect. Nothing changes where the
    variables of the environment are set, nor on a machine with a GPU: there processors only feed it, with
    many small tensors from many threads, which would wait for one another.
    """
    if any(map(os.path.exists, _GPU_DEVICES)):
        return
    os.environ.setdefault(_KEEP, "true")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # TensorFlow's own limit is 64 GiB, whatever there is.
    os.environ.setdefault(_LIMIT_MB, str(memory >> 20))
