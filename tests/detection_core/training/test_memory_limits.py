"""What this process may take, as the kernel's files say it: of the machine, of both kinds of groups."""

import os
from pathlib import Path

import pytest

from detection_core.training.memory import host_memory
from detection_core.training.memory_limits import System, allowed_memory, available_memory, total_memory

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
    assert available_memory(system) == HELD
    assert available_memory() > host_memory()
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
