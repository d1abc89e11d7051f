"""Checks of this machine: Python, packages and hardware for `detflow run`, `train` and `predict`."""

import dataclasses
import functools
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata

from detection_core.training.kernels import processor_flags
from detection_core.training.memory import THIS_SYSTEM, System, allowed_memory, total_memory
from pipeline.doctor.finding import Check, Finding, note, ok, problem, unknown
from pipeline.doctor.registry import look_up_image
from pipeline.extras import EXTRAS

DISTRIBUTION = "detflow"
_SHOWN = 5


@functools.cache
def versions() -> Mapping[str, str]:
    """Return the installed distributions, normalized name to version."""
    return {normalized(d.metadata["Name"]): d.version for d in metadata.distributions() if d.metadata["Name"]}


def normalized(name: str) -> str:
    """Return the name of a distribution as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def check_python() -> Iterator[Finding]:
    """Compare the Python version with the installed distribution's requirement."""
    version = platform.python_version()
    required = _metadata("Requires-Python")
    if required and not _serves(version, required):
        yield problem(
            f"{version}, where {required} is required",
            "make a virtual environment with that Python: python3.11 -m venv .venv",
        )
    else:
        yield ok(f"{version}, {platform.python_implementation()}")


def _serves(version: str, required: str) -> bool:
    # Where no version is required, as in our images, this package may be missing too.
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(required).contains(version, prereleases=True)


def _metadata(key: str) -> str:
    try:
        return str(metadata.metadata(DISTRIBUTION)[key] or "")
    except metadata.PackageNotFoundError:
        return ""


def check_packages() -> Iterator[Finding]:
    """Compare the installed packages with the distribution's requirements."""
    faults, count = _faults()
    if faults:
        yield problem(
            f"{len(faults)} of {count} required packages are not right: {_some(faults)}",
            f"pip install {DISTRIBUTION}, or `make setup` in a checkout",
        )
    elif not count:
        yield unknown(
            "no metadata of an installed detflow names its packages (an image, or a bare checkout)",
            "nothing, where `detflow run` or a step works",
        )
    else:
        yield ok(f"{count} required packages are there in versions that serve")


def check_extras() -> Iterator[Finding]:
    """Report installed and missing extras."""
    for extra in EXTRAS.values():
        if extra.missing():
            yield note(f"{extra.name}: not installed; needed by {extra.gives}", extra.remedy)
        else:
            yield ok(f"{extra.name}: installed; {extra.gives}")


def _faults() -> tuple[list[str], int]:
    """Return the unmet requirements of the distribution, and the number of requirements."""
    try:
        texts = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        texts = []
    if not texts:
        return [], 0
    from packaging.requirements import Requirement

    requirements = [Requirement(text) for text in texts]
    applicable = [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    faults = []
    for requirement in applicable:
        found = versions().get(normalized(requirement.name))
        if found is None:
            faults.append(f"{requirement.name} is missing")
        elif not requirement.specifier.contains(found, prereleases=True):
            faults.append(f"{requirement.name} is {found}, not {requirement.specifier}")
    return faults, len(applicable)


def _some(faults: list[str]) -> str:
    more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return ", ".join(faults[:_SHOWN]) + more


GIB = 1 << 30
_PATIENCE = 10  # timeout of system programs in seconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine: folders for runs, data and temporary files, and the root of the kernel's files."""

    folders: tuple[str, ...]
    images: tuple[str, ...] = ()
    system: System = THIS_SYSTEM


def this_machine(workspace: str = "", images: tuple[str, ...] = ()) -> Machine:
    """Return this machine, with its relevant folders.

    Without a workspace the working directory stands for it.
    """
    folders = dict.fromkeys((os.path.abspath(workspace or "."), tempfile.gettempdir()))
    return Machine(folders=tuple(folders), images=images)


def _read(*parts: str) -> str:
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def _output(*command: str) -> str | None:
    """Return the output of a program; None if it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


# Kernel names, and their use here.
_FEATURES = {
    "avx2": "AVX2",
    "fma": "FMA",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX-512 VNNI",
    "avx_vnni": "AVX VNNI",
    "avx512_bf16": "AVX-512 bfloat16",
    "amx_int8": "AMX int8",
    "amx_bf16": "AMX bfloat16",
}


def check_processor(machine: Machine) -> Iterator[Finding]:
    """Check the instruction sets that TensorFlow's wheels require, and those that make it fast."""
    architecture, count = platform.machine(), len(os.sched_getaffinity(0))
    what = f"{architecture}, {count} processors"
    if architecture not in ("x86_64", "AMD64"):
        yield ok(what)
        return
    flags = processor_flags(os.path.join(machine.system.proc, "cpuinfo"))
    found = [name for flag, name in _FEATURES.items() if flag in flags]
    if not flags:
        yield unknown(f"{what}; the kernel does not tell its features", "compare with another machine")
    elif "avx" not in flags:
        yield problem(
            f"{what}, without AVX: TensorFlow's wheels end with 'illegal instruction' here",
            "take a processor of 2011 or later, or let the virtual machine pass its features on",
        )
    elif not {"avx2", "fma"} <= flags:
        yield note(
            f"{what}; {', '.join(found) or 'AVX only'}",
            "training is slow without AVX2 and FMA: take a newer processor, or let the virtual machine pass"
            " its features on",
        )
    else:
        yield ok(f"{what}; {', '.join(found)}")


def gpu_memory(machine: Machine) -> tuple[str, int]:
    """Return name and bytes of memory of the first GPU; "" and 0 without a usable one."""
    if not _read(machine.system.proc, "driver", "nvidia", "version"):
        return "", 0
    listed = _output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits") or ""
    name, _, mebibytes = next(iter(listed.splitlines()), "").rpartition(",")
    return (name.strip(), int(mebibytes) << 20) if mebibytes.strip().isdigit() else ("", 0)


def check_memory(machine: Machine) -> Iterator[Finding]:
    """Compare the available memory with the need of training."""
    total, allowed = total_memory(machine.system), allowed_memory(machine.system)
    if not total:
        yield unknown("the kernel does not tell", "make sure that there are some 8 GiB for training")
        return
    what = f"{allowed / GIB:.1f} GiB" + (" (a limit of this container)" if allowed < total else "")
    if allowed < 2 * GIB:
        yield problem(f"{what}: TensorFlow alone takes about 1", "give it 4 GiB or more")
    elif allowed < 4 * GIB:
        yield note(f"{what}: small detectors only", "give it 8 GiB or more for the detectors of the zoo")
    else:
        yield ok(what)


def check_gpu(machine: Machine) -> Iterator[Finding]:
    """Check for an accelerator, its driver, and TensorFlow's libraries for it."""
    driver = _read(machine.system.proc, "driver", "nvidia", "version")
    listed = _output("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    if not driver and not listed:
        yield ok("none: TensorFlow trains on the processors")
        return
    what = "; ".join((listed or "a driver without nvidia-smi").splitlines())
    if not listed:
        yield problem(
            f"{what}: the driver is loaded, but shows no device",
            "start the container with its devices (NVIDIA's container runtime), or look at dmesg",
        )
    elif not any(name.startswith("nvidia-cudnn") for name in versions()):
        tensorflow = versions().get("tensorflow", "")
        requirement = f"tensorflow[and-cuda]=={tensorflow}" if tensorflow else "tensorflow[and-cuda]"
        yield problem(
            f"{what}: CUDA's libraries are missing, so TensorFlow does not use it",
            f"pip install '{requirement}', or take the image of `make image VARIANT=gpu`",
        )
    else:
        yield ok(what)


def check_disk(machine: Machine) -> Iterator[Finding]:
    """Check that the folders are writable, and their free space."""
    for folder in machine.folders:
        # A missing folder will be on its parent's disk.
        parent = folder
        while not os.path.exists(parent) and os.path.dirname(parent) != parent:
            parent = os.path.dirname(parent)
        free = shutil.disk_usage(parent).free
        what = f"{folder}: {free / GIB:.1f} GiB free"
        if not os.path.isdir(parent) or not os.access(parent, os.W_OK | os.X_OK):
            yield problem(f"{folder}: cannot be written", "choose another workspace, or change its owner")
        elif free < GIB:
            yield problem(what, "make room, or choose another workspace; TMPDIR moves temporary files")
        elif free < 10 * GIB:
            yield note(
                what, "enough for small data; a larger data set needs more for examples and checkpoints"
            )
        else:
            yield ok(what)


def check_engine(machine: Machine) -> Iterator[Finding]:
    """Check for a container engine, which building the images needs."""
    for name in ("docker", "podman"):
        if shutil.which(name) is None:
            continue
        version = _output(name, "version", "--format", "{{.Server.Version}}") or _output(name, "--version")
        if _output(name, "info") is not None:
            yield ok(f"{name} {version or ''}".strip())
            return
        yield note(
            f"{name} is installed, but no engine answers",
            "start it (systemctl start docker; as root in a checkout: .ci/docker-up); only images need it",
        )
        return
    yield note("none", "install Docker or Podman to build images; nothing else needs one")


def check_images(machine: Machine) -> Iterator[Finding]:
    """Check the settings' images in their registries."""
    for name in machine.images:
        yield look_up_image(name)


MACHINE_CHECKS: tuple[Check[Machine], ...] = (
    Check("python", lambda machine: check_python()),
    Check("packages", lambda machine: check_packages()),
    Check("extras", lambda machine: check_extras()),
    Check("processor", check_processor),
    Check("memory", check_memory),
    Check("gpu", check_gpu),
    Check("disk", check_disk),
    Check("engine", check_engine),
    Check("registry", check_images),
)
