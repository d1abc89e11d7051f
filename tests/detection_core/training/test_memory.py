"""What is told of the memory."""

import re
from pathlib import Path

import numpy as np
import pytest

from detection_core.training import memory


def test_memory_is_what_the_system_says():
    (told,) = re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert memory.host_memory() == pytest.approx(int(told) * 1024, rel=0.2)
    before = memory.host_memory()
    held = np.ones(50_000_000, np.uint8)
    grown = memory.host_memory() - before
    assert 40_000_000 < grown < 80_000_000, held.size
    assert memory.device_memory() == memory.peak_device_memory() == 0


def test_the_peak_stays_when_memory_is_given_back_and_is_told_where_no_other_is(monkeypatch):
    before = memory.peak_host_memory()
    held = np.ones(before - memory.host_memory() + 300_000_000, np.uint8)
    peak = memory.peak_host_memory()
    assert peak > before + 40_000_000, held.size
    del held
    assert memory.peak_host_memory() == peak
    monkeypatch.setattr(memory, "held_memory", lambda: 0)
    assert memory.host_memory() == memory.peak_host_memory() > 1_000_000
