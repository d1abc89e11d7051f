"""The memory of a run."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from detection_core.training import memory
from detection_core.training.memory import System, allowed_memory, available_memory, host_memory, total_memory
from tests.support.cases import cases
from tests.support.command_line import run_python


def test_memory_is_what_the_system_says_and_its_peak_stays(monkeypatch):
    (told,) = re.findall(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert memory.host_memory() == pytest.approx(int(told) * 1024, rel=0.2)
    before = memory.host_memory()
    held = np.ones(50_000_000, np.uint8)
    grown = memory.host_memory() - before
    assert 40_000_000 < grown < 80_000_000, held.size
    assert memory.device_memory() == memory.peak_device_memory() == 0
    before = memory.peak_host_memory()
    held = np.ones(before - memory.host_memory() + 300_000_000, np.uint8)
    peak = memory.peak_host_memory()
    assert peak > before + 40_000_000, held.size
    del held
    assert memory.peak_host_memory() == peak
    monkeypatch.setattr(memory, "held_memory", lambda: 0)
    assert memory.host_memory() == memory.peak_host_memory() > 1_000_000


PAGE = os.sysconf("SC_PAGE_SIZE")
HELD = 1_000 * PAGE
MACHINE = 8_000_000 * 1024


@pytest.fixture
def system(tmp_path):
    write(tmp_path / "proc" / "self" / "statm", "9000 1000 10 1 0 5 0")
    write(tmp_path / "proc" / "meminfo", "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    return System(proc=str(tmp_path / "proc"), cgroup=str(tmp_path / "cgroup"))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def group(system, kind, folder, limit, usage, inactive=0):
    """Write what a group tells; names as in the kernel's cgroup-v2.rst and cgroup-v1/memory.rst."""
    names = {
        "2": ("memory.max", "memory.current", "inactive_file"),
        "1": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    }
    limit_name, usage_name, inactive_name = names[kind]
    root = Path(system.cgroup, *(["memory"] if kind == "1" else []), folder)
    write(root / limit_name, limit)
    write(root / usage_name, str(usage))
    write(root / "memory.stat", f"anon 5\n{inactive_name} {inactive}")


def belongs(system, line):
    write(Path(system.proc, "self", "cgroup"), f"5:cpu:/x\n{line}")


LINES = {"2": "0::/pods/mine", "1": "4:hugetlb,memory:/pods/mine"}


def test_the_limit_of_a_group_and_of_one_around_it_counts(system):
    assert available_memory(system) == MACHINE + HELD
    belongs(system, LINES["2"])
    group(system, "2", "pods/mine", "1000000", 1_200_000)
    assert available_memory(system) == HELD and available_memory() > host_memory()
    for kind, line in LINES.items():
        belongs(system, line)
        group(system, kind, "pods/mine", "5000000", 3_000_000, inactive=500_000)
        assert available_memory(system) == 2_500_000 + HELD
        group(system, kind, "pods/mine", "max" if kind == "2" else str(2**63 - PAGE), 1_000_000)
        group(system, kind, "pods", "4000000", 1_600_000)
        assert available_memory(system) == 2_400_000 + HELD
    belongs(system, "0::/of/the/machine")  # as where no namespace hides the machine's path
    group(system, "2", "", "2000000", 1_000_000)
    assert available_memory(system) == 1_000_000 + HELD


def test_what_is_allowed_is_the_least_limit_whoever_uses_it(system, tmp_path):
    assert allowed_memory(system) == total_memory(system) == 9_000_000 * 1024
    for kind, line in LINES.items():
        belongs(system, line)
        group(system, kind, "pods", "7000000", 6_999_999)
        group(system, kind, "pods/mine", "8000000", 1)
        assert allowed_memory(system) == 7_000_000
    nothing = System(proc=str(tmp_path / "no"), cgroup=str(tmp_path / "no"))
    assert allowed_memory(nothing) == total_memory(nothing) == available_memory(nothing) == 0


# TensorFlow's default allocator does not count what tensors take; the one that keeps memory does.
_COUNTED = """
from detection_core.training.memory import keep_host_memory
keep_host_memory()
import tensorflow as tf
for _ in range(2):
    tf.ones([4_000_000]) + 1.0
try:
    print(tf.config.experimental.get_memory_info("CPU:0")["peak"])
except ValueError:
    print(0)
"""


def test_tensorflow_keeps_memory_unless_there_is_a_gpu_or_the_environment_says_otherwise(monkeypatch):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TF_CPU_")}
    # oneDNN, which TensorFlow turns on by the processor, has its own allocator that counts.
    environment |= {"TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    assert int(run_python(_COUNTED, env=environment).stdout.split()[-1]) >= 16_000_000
    monkeypatch.setattr(memory, "_GPU_DEVICES", ())
    monkeypatch.delenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", raising=False)
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", "false")
    memory.keep_host_memory()
    assert os.environ["TF_CPU_ALLOCATOR_USE_BFC"] == "false"
    monkeypatch.setattr(memory, "_GPU_DEVICES", (__file__,))
    monkeypatch.delenv("TF_CPU_ALLOCATOR_USE_BFC", raising=False)
    memory.keep_host_memory()
    assert "TF_CPU_ALLOCATOR_USE_BFC" not in os.environ


MACHINE_MIB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


@cases((8 << 30, 7 << 10), (1 << 30, 1 << 9), (0, MACHINE_MIB - 1024))
def test_tensors_may_take_what_is_left_beside_the_code(monkeypatch, *, available, limit):
    monkeypatch.setattr(memory, "_GPU_DEVICES", ())
    monkeypatch.setattr(memory, "available_memory", lambda: available)
    monkeypatch.setenv("TF_CPU_ALLOCATOR_USE_BFC", "true")
    monkeypatch.delenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", raising=False)
    memory.keep_host_memory()
    assert int(os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"]) == limit
    monkeypatch.delenv("TF_CPU_BFC_MEM_LIMIT_IN_MB")
