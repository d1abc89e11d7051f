"""What part of the machine each of several trainings gets."""

from __future__ import annotations

import glob
import os


def worker_environment(slot: int, workers: int) -> dict[str, str]:
    """Return environment variables by which a training leaves room for the others.

    Threads of processors are divided; GPUs are dealt out, and one that several share is not filled by the
    first. What the environment says already stays.

    Args:
        slot: which of the workers, from 0 on.
        workers: how many there are.
    """
    if workers == 1:
        return {}
    threads = str(max(1, len(os.sched_getaffinity(0)) // workers))
    found = {"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads, "OMP_NUM_THREADS": threads}
    found = {name: value for name, value in found.items() if name not in os.environ}
    devices = visible_gpus()
    if devices:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(devices[slot::workers]) or devices[slot % len(devices)]
        found["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    return found


def visible_gpus() -> list[str]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, without it all of NVIDIA's."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [device.strip() for device in named.split(",") if device.strip() not in ("", "-1")]
    return [str(i) for i in range(len(glob.glob("/dev/nvidia[0-9]*")))]
