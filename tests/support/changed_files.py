"""What changed since a commit, and which tests that concerns."""

import argparse
import functools
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support.import_closure import ROOT, closure_of

IN_MAKE_TEST = "not zoo and not faults and not slow"
FEW = 12
"""Test files for which a second worker costs more than it saves."""
SMOKE = "tests/end_to_end/test_smoke.py"


def changed_files(since: str) -> set[str]:
    """List the files that differ from a commit, those that git does not know yet included."""
    names: set[str] = set()
    for command in (
        ["diff", "--name-only", "-z", since],
        ["ls-files", "-z", "--others", "--exclude-standard"],
    ):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True)
        names |= set(filter(None, done.stdout.split("\0")))
    return names


def tests_of(changed: Iterable[str]) -> list[str]:
    """List the test files that a change concerns; all where it changes how every test runs.

    A Python file concerns the tests whose import closure holds it. Any other file concerns the tests beside
    it or above it, and those whose closure below `tests` says its name.
    """
    names = [Path(name) for name in changed]
    test_files = sorted((ROOT / "tests").rglob("test_*.py"))
    python = {ROOT / name for name in names if name.suffix == ".py"}
    others = [name for name in names if name.suffix != ".py"]
    if {"pyproject.toml", "requirements.lock"} & {str(name) for name in others}:
        return [str(test.relative_to(ROOT)) for test in test_files]
    chosen = []
    for test in test_files:
        closure = closure_of(test)
        if python & closure or any(_concerns(name, test, closure) for name in others):
            chosen.append(str(test.relative_to(ROOT)))
    return chosen


def _concerns(changed: Path, test: Path, files: Iterable[Path]) -> bool:
    beside = changed.parts[0] == "tests" and test.is_relative_to(ROOT / changed.parent.parent)
    ours = (file for file in files if file.is_relative_to(ROOT / "tests"))
    return beside or any(changed.name in _text(file) for file in ours)


@functools.cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests that a change since a commit concerns, and the smoke test."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.changed_files", description=__doc__)
    parser.add_argument("since", help="a commit")
    options, given = parser.parse_known_args(arguments)
    chosen = tests_of(changed_files(options.since))
    print(f"{len(chosen)} test files and the smoke test", flush=True)
    few = len(chosen) <= FEW
    workers = [] if few else ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *workers, "-m", IN_MAKE_TEST, *given]
    return subprocess.run([*command, *dict.fromkeys([*chosen, SMOKE])], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
