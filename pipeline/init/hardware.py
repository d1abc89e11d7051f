"""What a training may take of this machine."""

from __future__ import annotations

import dataclasses
import os

from detection_core.training.memory import allowed_memory
from pipeline.doctor.machine import GIB, gpu_memory, this_machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hardware:
    """What a training may take.

    Attributes:
        processors: that this process may run on.
        memory: bytes; of the GPU where there is one; 0 where nobody tells.
        gpu: its name, "" for none.
    """

    processors: int
    memory: int
    gpu: str = ""

    @property
    def text(self) -> str:
        """What it is, for people."""
        where = self.gpu or f"{self.processors} processors without a GPU"
        return f"{where}, {self.memory / GIB:.0f} GiB" if self.memory else where


def look_at_hardware() -> Hardware:
    """Return what this machine has."""
    machine = this_machine()
    gpu, memory = gpu_memory(machine)
    return Hardware(
        processors=len(os.sched_getaffinity(0)), memory=memory if gpu else allowed_memory(), gpu=gpu
    )
