"""Hardware that training can use."""

from __future__ import annotations

import dataclasses
import os

from detection_core.training.memory import allowed_memory
from pipeline.doctor.machine import GIB, gpu_memory, this_machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hardware:
    """Hardware that training can use.

    Attributes:
        processors: available to this process.
        memory: bytes, of the GPU if there is one; 0 if unknown.
        gpu: its name, "" for none.
    """

    processors: int
    memory: int
    gpu: str = ""

    @property
    def text(self) -> str:
        """Return a description for users."""
        where = self.gpu or f"{self.processors} processors without a GPU"
        return f"{where}, {self.memory / GIB:.0f} GiB" if self.memory else where


def look_at_hardware() -> Hardware:
    """Detect this machine's hardware."""
    machine = this_machine()
    gpu, memory = gpu_memory(machine)
    return Hardware(
        processors=len(os.sched_getaffinity(0)), memory=memory if gpu else allowed_memory(), gpu=gpu
    )
