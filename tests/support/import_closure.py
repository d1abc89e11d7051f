"""Which of our files a file needs: what it imports, and every module of ours that it names in a string.

Names in strings count because families, extensions and child processes are imported by name. The closure
is found in the text alone, so that nothing is imported to learn it.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {name: ROOT for name in ("detection_core", "components", "component_specs", "pipeline", "tests")}
PACKAGES["detflow"] = ROOT / "pipeline" / "api"

_OURS = rf"(?:{'|'.join(PACKAGES)})"
_FROM = re.compile(rf"^([ \t]*)from ({_OURS}(?:\.\w+)*) import (\([^)]*\)|.*)", re.MULTILINE)
_IMPORT = re.compile(rf"^([ \t]*)import ({_OURS}(?:\.\w+)*)", re.MULTILINE)
_STRING = re.compile(rf"[\"']({_OURS}(?:\.(?:\w|{{[^}}]*}})+)+)")
_NAMED = re.compile(rf"\b{_OURS}(?:\.\w+)+")
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ \t].*)?\n)+", re.MULTILINE)


@functools.cache
def imported_files(file: Path, *, when_passed: bool = False) -> frozenset[Path]:
    """Find the files of ours that a Python file imports or names in a string.

    Late imports do not count when it is `__init__.py` of a package of which only a module below is imported.
    """
    text = _FOR_TYPES.sub("", file.read_text(encoding="utf-8"))
    names = {name for indent, name in _IMPORT.findall(text) if not (when_passed and indent)}
    for indent, package, members in _FROM.findall(text):
        if not (when_passed and indent):
            names |= {package} | {f"{package}.{member}" for member in re.findall(r"\w+", members)}
    if file.is_relative_to(ROOT / "tests"):  # they hold programs for child processes
        names |= set(_NAMED.findall(text))
    if not when_passed:
        names |= {re.sub(r"{[^}]*}", "*", name) for name in _STRING.findall(text)}
    return frozenset({path for name in names for path in _files(name)} - {file})


def import_closure(files: Iterable[Path]) -> frozenset[Path]:
    """Find every file of ours that these need, themselves and the `conftest.py` files above them included."""
    closure, passed, left = set(), set(), list(files)
    while left:
        file = left.pop()
        if file in closure:
            continue
        closure.add(file)
        left += [*imported_files(file), *_conftests(file)]
        for package in set(_packages(file)) - passed:
            passed.add(package)
            left += imported_files(package, when_passed=True)
    return frozenset(closure | passed)


@functools.cache
def closure_of(file: Path) -> frozenset[Path]:
    """Find the import closure of one file."""
    return import_closure([file])


def closure_digest(file: Path) -> str:
    """Digest the contents of a file's import closure and of the locked dependencies."""
    digest = hashlib.sha256((ROOT / "requirements.lock").read_bytes())
    for path in sorted(closure_of(file)):
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _files(name: str) -> tuple[Path, ...]:
    """List the file that a dotted name stands for, or that of the module whose member it is."""
    first, *rest = name.split(".")
    folder = PACKAGES[first]
    path = "/".join([first, *rest])
    if "*" in name:
        return tuple(folder.glob(f"{path}.py"))
    for file in (folder / f"{path}.py", folder / path / "__init__.py"):
        if file.is_file():
            return (file, *(main for main in (folder / path / "__main__.py",) if main.is_file()))
    return _files(name.rpartition(".")[0]) if rest else ()


@functools.cache
def _packages(file: Path) -> list[Path]:
    return [
        path for folder in file.parents[:-1] if (path := folder / "__init__.py").is_file() and path != file
    ]


@functools.cache
def _conftests(file: Path) -> list[Path]:
    if not file.name.startswith("test_"):
        return []
    return [path for folder in file.parents if (path := folder / "conftest.py").is_file()]
