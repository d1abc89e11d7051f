"""The checks of Python and its packages, read from their metadata: nothing of them is imported."""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Iterator, Mapping
from importlib import metadata

from pipeline.doctor.finding import Finding, note, ok, problem, unknown
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
    """Compare this Python with what the installed distribution wants."""
    version = platform.python_version()
    required = _metadata("Requires-Python")
    if required and not _serves(version, required):
        yield problem(
            f"{version}, where {required} is required",
            "make a virtual environment with such a Python: python3.11 -m venv .venv",
        )
    else:
        yield ok(f"{version}, {platform.python_implementation()}")


def _serves(version: str, required: str) -> bool:
    # Where no version is required, as in our images, there need not be this package either.
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(required).contains(version, prereleases=True)


def _metadata(key: str) -> str:
    try:
        return str(metadata.metadata(DISTRIBUTION)[key] or "")
    except metadata.PackageNotFoundError:
        return ""


def check_packages() -> Iterator[Finding]:
    """Compare the installed packages with what the installed distribution requires."""
    faults, count = _faults("")
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
    """Tell which optional parts are installed, and what works with the others."""
    for extra in EXTRAS.values():
        if extra.missing():
            yield note(f"{extra.name}: not installed; needed by {extra.gives}", extra.remedy)
        else:
            yield ok(f"{extra.name}: installed; {extra.gives}")


def _faults(extra: str) -> tuple[list[str], int]:
    """Return what is wrong with the requirements of the distribution, and how many there are."""
    try:
        texts = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        texts = []
    if not texts:
        return [], 0
    from packaging.requirements import Requirement

    requirements = [Requirement(text) for text in texts]
    applicable = [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": extra})]
    faults = []
    for requirement in applicable:
        found = versions().get(normalized(requirement.name))
        if found is None:
            faults.append(f"{requirement.name} is missing")
        elif not requirement.specifier.contains(found, prereleases=True):
            faults.append(f"{requirement.name} is {found}, not {requirement.specifier}")
    return faults, len(applicable)


def check_lock() -> Iterator[Finding]:
    """Compare the installed packages with the lock of the checkout that this code is from."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "requirements.lock")
    try:
        with open(path, encoding="utf-8") as f:
            pins = read_lock(f.read())
    except OSError:
        yield ok("no requirements.lock beside the code, as it is not a checkout")
        return
    found = {name: versions().get(name) for name in pins}
    other = [f"{n} {found[n] or 'missing'} (lock: {pins[n]})" for n in pins if found[n] != pins[n]]
    if other:
        yield note(
            f"{len(other)} of {len(pins)} packages are not those of requirements.lock: {_some(other)}",
            "`make setup` installs what the tests ran with",
        )
    else:
        yield ok(f"{len(pins)} packages, all as in requirements.lock")


def read_lock(text: str) -> dict[str, str]:
    """Return the pins of a lock file, normalized name to version."""
    pins = re.findall(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", text, re.MULTILINE)
    return {normalized(name): version for name, version in pins}


def _some(faults: list[str]) -> str:
    more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return ", ".join(faults[:_SHOWN]) + more
