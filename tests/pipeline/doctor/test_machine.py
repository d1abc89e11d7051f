"""The checks of this machine, read from folders instead of /proc and /sys."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from detection_core.training.memory_limits import System
from pipeline.doctor import machine as doctor
from pipeline.doctor.finding import State

FAST = "fpu sse4_2 avx avx2 fma avx512f avx512_vnni amx_int8"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of files: /proc and /sys as folders."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "cgroup").mkdir()
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(doctor, "_output", lambda *command: None)
    return doctor.Machine(
        folders=(str(tmp_path),), system=System(proc=str(tmp_path / "proc"), cgroup=str(tmp_path / "cgroup"))
    )


def processor(machine, flags):
    (Path(machine.system.proc) / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    (finding,) = doctor.check_processor(machine)
    return finding


def test_the_processor(machine, monkeypatch):
    for flags, state, words in (
        (FAST, State.OK, "AVX2, FMA, AVX-512, AVX-512 VNNI, AMX int8"),
        ("fpu avx", State.NOTE, "AVX only"),
        ("fpu avx fma", State.NOTE, "; FMA"),
        ("fpu sse4_2", State.PROBLEM, "without AVX"),
        ("", State.UNKNOWN, "the kernel does not tell"),
    ):
        finding = processor(machine, flags)
        assert finding.state is state and words in finding.found
    monkeypatch.setattr(doctor.platform, "machine", lambda: "aarch64")
    assert processor(machine, "fpu").state is State.OK


def test_memory_is_that_of_the_container(machine):
    proc = Path(machine.system.proc)
    assert [f.state for f in doctor.check_memory(machine)] == [State.UNKNOWN]
    (proc / "self").mkdir()
    (proc / "self" / "cgroup").write_text("0::/pods/mine\n")
    for folder in ("", "pods/mine"):
        group = Path(machine.system.cgroup) / folder
        group.mkdir(parents=True, exist_ok=True)
        (group / "memory.current").write_text("1\n")
        for gibibytes, limit, state, words in (
            (16, "max", State.OK, "16.0 GiB"),
            (16, str(3 << 30), State.NOTE, "3.0 GiB (a limit of this container)"),
            (4, "max", State.OK, "4.0 GiB"),
            (2, "max", State.NOTE, "2.0 GiB: small detectors only"),
            (16, str((2 << 30) - 1), State.PROBLEM, "(a limit of this container): TensorFlow alone"),
            (1, "max", State.PROBLEM, "1.0 GiB"),
        ):
            (proc / "meminfo").write_text(f"MemTotal:  {gibibytes << 20} kB\nMemFree: 1 kB\n")
            (group / "memory.max").write_text(limit + "\n")
            (finding,) = doctor.check_memory(machine)
            assert finding.state is state and words in finding.found, (folder, limit)
        (group / "memory.max").unlink()


def test_no_accelerator_is_no_fault(machine):
    (finding,) = doctor.check_gpu(machine)
    assert finding.state is State.OK


def test_an_accelerator_without_cuda_is_told_with_the_install_command(machine, monkeypatch):
    monkeypatch.setattr(doctor, "_output", lambda *command: "NVIDIA H100, 570.1, 81559 MiB")
    monkeypatch.setattr(doctor, "versions", lambda: {"tensorflow": "2.21.0"})
    (finding,) = doctor.check_gpu(machine)
    assert finding.state is State.PROBLEM and "tensorflow[and-cuda]==2.21.0" in finding.remedy
    monkeypatch.setattr(doctor, "versions", lambda: {"nvidia-cudnn-cu12": "9.1"})
    (finding,) = doctor.check_gpu(machine)
    assert finding.state is State.OK


def test_a_driver_without_devices_is_a_problem(machine):
    place = Path(machine.system.proc) / "driver" / "nvidia"
    place.mkdir(parents=True)
    (place / "version").write_text("NVRM version: 570")
    (finding,) = doctor.check_gpu(machine)
    assert finding.state is State.PROBLEM


def test_the_memory_of_an_accelerator(machine, monkeypatch):
    driver = Path(machine.system.proc) / "driver" / "nvidia"
    for listed in ("NVIDIA H100, 81559\nNVIDIA H100, 1", "NVIDIA H100, [N/A]", ""):
        monkeypatch.setattr(doctor, "_output", lambda *command, listed=listed: listed)
        assert doctor.gpu_memory(machine) == ("", 0), "without a driver there is none"
    driver.mkdir(parents=True)
    (driver / "version").write_text("NVRM version: 570")
    for listed, found in (
        ("NVIDIA H100, 81559\nNVIDIA H100, 1", ("NVIDIA H100", 81559 << 20)),
        ("NVIDIA H100, [N/A]", ("", 0)),
        (None, ("", 0)),
    ):
        monkeypatch.setattr(doctor, "_output", lambda *command, listed=listed: listed)
        assert doctor.gpu_memory(machine) == found


def test_the_engine_of_containers(machine, monkeypatch):
    for installed, answers, state, words in (
        ((), {}, State.NOTE, "none"),
        (("docker", "podman"), {"version": "29.1", "info": "x"}, State.OK, "docker 29.1"),
        (("podman",), {"--version": "podman 5", "info": "x"}, State.OK, "podman podman 5"),
        (("docker",), {"version": "29.1"}, State.NOTE, "docker is installed, but no engine answers"),
    ):
        monkeypatch.setattr(
            doctor.shutil, "which", lambda name, found=installed: name if name in found else None
        )
        monkeypatch.setattr(doctor, "_output", lambda name, verb, *more, said=answers: said.get(verb))
        (finding,) = doctor.check_engine(machine)
        assert (finding.state, finding.found) == (state, words)


def test_the_disk(machine, monkeypatch):
    for free, state in (
        ((1 << 30) - 1, State.PROBLEM),
        (1 << 30, State.NOTE),
        ((10 << 30) - 1, State.NOTE),
        (10 << 30, State.OK),
    ):
        usage = type("Usage", (), {"free": free})
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path, usage=usage: usage)
        (finding,) = doctor.check_disk(machine)
        assert finding.state is state


def test_a_workspace_that_is_not_made_yet_is_on_the_disk_of_its_parent(tmp_path):
    (first, _) = doctor.check_disk(doctor.this_machine(str(tmp_path / "a" / "b")))
    assert first.found.startswith(f"{tmp_path}/a/b: ") and first.state is not State.UNKNOWN


def test_a_file_where_the_folder_should_be_cannot_be_written(tmp_path):
    (tmp_path / "workspace").write_text("")
    (first, _) = doctor.check_disk(doctor.this_machine(str(tmp_path / "workspace" / "b")))
    assert first.state is State.PROBLEM


def test_the_answer_comes_without_tensorflow():
    program = """
import json, sys
from pipeline import cli
code = cli.main(["doctor", "--json"])
heavy = {"tensorflow", "tf_keras", "tfx", "apache_beam", "kfp", "kubernetes"} & set(sys.modules)
print(json.dumps([code, sorted(heavy)]), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    code, heavy = json.loads(done.stderr.splitlines()[-1])
    answer = json.loads(done.stdout)
    assert heavy == [] and code == (0 if answer["healthy"] else 2)
    names = [check.name for check in doctor.MACHINE_CHECKS if check.name != "registry"]
    assert list(dict.fromkeys(f["check"] for f in answer["findings"])) == names
    assert all(f["remedy"] for f in answer["findings"] if f["state"] != "ok")
