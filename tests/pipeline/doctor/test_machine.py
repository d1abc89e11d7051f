"""What the machine has."""

import json
import sys
import types
from importlib import metadata
from pathlib import Path
from unittest import mock

import pytest

from detection_core.errors import ConfigError
from detection_core.training.memory import System
from pipeline.doctor import machine as doctor
from pipeline.doctor import machine as packages
from pipeline.doctor.finding import Check, State, examine, note, ok, problem, unknown
from pipeline.extras import EXTRAS
from tests.support.cases import refused
from tests.support.command_line import run_python


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of files: /proc and /sys as folders."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "cgroup").mkdir()
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(doctor, "_output", lambda *command: None)
    system = System(proc=str(tmp_path / "proc"), cgroup=str(tmp_path / "cgroup"))
    return doctor.Machine(folders=(str(tmp_path),), system=system)


def test_the_processor(machine, monkeypatch):
    def processor(flags):
        (Path(machine.system.proc) / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
        (finding,) = doctor.check_processor(machine)
        return finding

    for flags, state, words in (
        ("avx avx2 fma avx512f avx512_vnni amx_int8", State.OK, "AVX2, FMA, AVX-512, AVX-512 VNNI, AMX int8"),
        ("fpu avx", State.NOTE, "AVX only"),
        ("fpu avx fma", State.NOTE, "; FMA"),
        ("fpu sse4_2", State.PROBLEM, "without AVX"),
        ("", State.UNKNOWN, "the kernel does not tell"),
    ):
        finding = processor(flags)
        assert finding.state is state and words in finding.found
    monkeypatch.setattr(doctor.platform, "machine", lambda: "aarch64")
    assert processor("fpu").state is State.OK


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


def test_an_accelerator_without_driver_cuda_or_devices_is_told(machine, monkeypatch):
    def state():
        (finding,) = doctor.check_gpu(machine)
        return finding.state, finding.remedy

    assert state()[0] is State.OK, "none is no fault"
    monkeypatch.setattr(doctor, "_output", lambda *command: "NVIDIA H100, 570.1, 81559 MiB")
    monkeypatch.setattr(doctor, "versions", lambda: {"tensorflow": "2.21.0"})
    found, remedy = state()
    assert found is State.PROBLEM and "tensorflow[and-cuda]==2.21.0" in remedy
    monkeypatch.setattr(doctor, "versions", lambda: {"nvidia-cudnn-cu12": "9.1"})
    assert state()[0] is State.OK
    monkeypatch.setattr(doctor, "_output", lambda *command: None)
    put_driver(machine)
    assert state()[0] is State.PROBLEM


def put_driver(machine):
    place = Path(machine.system.proc) / "driver" / "nvidia"
    place.mkdir(parents=True)
    (place / "version").write_text("NVRM version: 570")


def test_the_memory_of_an_accelerator(machine, monkeypatch):
    def memory(listed):
        monkeypatch.setattr(doctor, "_output", lambda *command: listed)
        return doctor.gpu_memory(machine)

    two = "NVIDIA H100, 81559\nNVIDIA H100, 1"
    assert [memory(text) for text in (two, "NVIDIA H100, [N/A]", "")] == [("", 0)] * 3, "no driver"
    put_driver(machine)
    assert memory(two) == ("NVIDIA H100", 81559 << 20)
    assert memory("NVIDIA H100, [N/A]") == memory(None) == ("", 0)


def test_the_engine_of_containers(machine, monkeypatch):
    for installed, answers, state, words in (
        ((), {}, State.NOTE, "none"),
        (("docker", "podman"), {"version": "29.1", "info": "x"}, State.OK, "docker 29.1"),
        (("podman",), {"--version": "podman 5", "info": "x"}, State.OK, "podman podman 5"),
        (("docker",), {"version": "29.1"}, State.NOTE, "docker is installed, but no engine answers"),
    ):
        monkeypatch.setattr(doctor.shutil, "which", {name: name for name in installed}.get)
        monkeypatch.setattr(doctor, "_output", lambda name, verb, *more, said=answers: said.get(verb))
        (finding,) = doctor.check_engine(machine)
        assert (finding.state, finding.found) == (state, words)


def test_the_disk(machine, monkeypatch, tmp_path):
    (first, _) = doctor.check_disk(doctor.this_machine(str(tmp_path / "a" / "b")))
    assert first.found.startswith(f"{tmp_path}/a/b: ") and first.state is not State.UNKNOWN, "its parent's"
    (tmp_path / "workspace").write_text("")
    (first, _) = doctor.check_disk(doctor.this_machine(str(tmp_path / "workspace" / "b")))
    assert first.state is State.PROBLEM, "a file where the folder should be"
    gib = 1 << 30
    steps = ((gib - 1, State.PROBLEM), (gib, State.NOTE), (10 * gib - 1, State.NOTE), (10 * gib, State.OK))
    for free, state in steps:
        usage = types.SimpleNamespace(free=free)
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path, usage=usage: usage)
        (finding,) = doctor.check_disk(machine)
        assert finding.state is state


def test_the_answer_comes_without_tensorflow():
    program = """
import json, sys
from pipeline import cli
code = cli.main(["doctor", "--json"])
heavy = {"tensorflow", "tf_keras", "tfx", "apache_beam", "kfp", "kubernetes"} & set(sys.modules)
print(json.dumps([code, sorted(heavy)]), file=sys.stderr)
"""
    done = run_python(program)
    code, heavy = json.loads(done.stderr.splitlines()[-1])
    answer = json.loads(done.stdout)
    assert heavy == [] and code == (0 if answer["healthy"] else 2)
    names = [check.name for check in doctor.MACHINE_CHECKS if check.name != "registry"]
    assert list(dict.fromkeys(f["check"] for f in answer["findings"])) == names
    assert all(f["remedy"] for f in answer["findings"] if f["state"] != "ok")


def test_these_packages_serve_and_one_that_is_missing_or_old_is_named(monkeypatch):
    def installed(**changes):
        """Pretend that other versions are installed."""
        found = dict(packages.versions())
        for name, version in changes.items():
            found.pop(packages.normalized(name), None)
            if version:
                found[packages.normalized(name)] = version
        monkeypatch.setattr(packages, "versions", lambda: found)

    (finding,) = packages.check_packages()
    assert finding.state is State.OK, finding
    installed(tensorflow="2.15.0", pillow="")
    (finding,) = packages.check_packages()
    assert finding.state is State.PROBLEM
    assert "pillow is missing" in finding.found and "tensorflow is 2.15.0, not <2.22,>=2.21" in finding.found


def test_another_python_is_told_and_without_metadata_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr(packages.platform, "python_version", lambda: "3.9.2")
    (finding,) = packages.check_python()
    assert finding.state is State.PROBLEM and "3.9.2" in finding.found
    monkeypatch.undo()
    monkeypatch.setattr(packages.metadata, "requires", mock.Mock(side_effect=metadata.PackageNotFoundError))
    assert [f.state for f in packages.check_packages()] == [State.UNKNOWN]
    # What docker/Dockerfile writes names no packages, and the image of the command line no `packaging`.
    monkeypatch.setattr(packages.metadata, "requires", lambda name: None)
    monkeypatch.setattr(packages, "_metadata", lambda key: "")
    for name in ("packaging", "packaging.specifiers", "packaging.requirements"):
        monkeypatch.setitem(sys.modules, name, None)
    assert [f.state for f in packages.check_python()] == [State.OK]
    assert [f.state for f in packages.check_packages()] == [State.UNKNOWN]


def test_a_missing_extra_is_told_with_what_it_gives(monkeypatch):
    monkeypatch.setattr("pipeline.extras.importlib.util.find_spec", lambda name: None)
    found = list(packages.check_extras())
    assert [f.state for f in found] == [State.NOTE] * len(EXTRAS)
    assert "pip install 'detflow[cluster]'" in next(f.remedy for f in found if f.found.startswith("cluster"))


def refuse(subject):
    raise ConfigError("broken", where=subject)
    yield


def test_findings_come_in_the_order_of_the_table_and_a_check_that_cannot_look_ends_only_what_rests_on_it():
    one = Check("one", lambda s: [ok(s), note("n", "do")])
    found = examine((one, Check("two", lambda s: iter([problem("p", "do")]))), "here")
    expected = [("one", State.OK, "here"), ("one", State.NOTE, "n"), ("two", State.PROBLEM, "p")]
    assert [(f.check, f.state, f.found) for f in found] == expected
    found = examine((Check("one", refuse), Check("two", lambda s: [ok(s)])), "here")
    assert [(f.check, f.state) for f in found] == [("one", State.PROBLEM), ("two", State.OK)]
    assert "here: broken" in found[0].found and found[0].remedy
    found = examine((Check("one", refuse, essential=True), Check("two", lambda s: [ok(s)])), "here")
    assert [f.check for f in found] == ["one"]
    for state in (note, unknown, problem):
        refused(ValueError, "remedy", state, "found", "")
