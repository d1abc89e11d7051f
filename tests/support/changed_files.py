"""What changed since a commit, and which tests that concerns."""

import argparse
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support.executed import WORKERS, Record, function_lines
from tests.support.import_closure import PACKAGES, ROOT, closure_of, imported_files

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


def tests_of(changed: Iterable[str], since: str = "HEAD") -> list[str]:
    """List the test files that a change concerns; all where it changes how every test runs.

    A Python file of the packages concerns the test files that import it or ran its functions when this was
    recorded. Where the record does not know the test or the file, and for support of the tests, the import
    closure decides. Any other file concerns the tests beside it or above it, and those whose closure below
    `tests` says its name; a page concerns those of its folder, too.
    """
    names = [Path(name) for name in changed]
    test_files = sorted((ROOT / "tests").rglob("test_*.py"))
    if {"pyproject.toml", "requirements.lock"} & {str(name) for name in names}:
        return [str(test.relative_to(ROOT)) for test in test_files]
    record = Record()
    python = {ROOT / name: _running(str(name), since, record) for name in names if name.suffix == ".py"}
    others = [name for name in names if name.suffix != ".py"]

    def needs(test: Path, file: Path, running: set[str] | None) -> bool:
        name = str(test.relative_to(ROOT))
        if file not in closure_of(test) or running is None or name not in record.tests:
            return file in closure_of(test)
        return name in running or file == test or file in imported_files(test)

    return [
        str(test.relative_to(ROOT))
        for test in test_files
        if any(needs(test, file, running) for file, running in python.items())
        or any(_concerns(name, test, closure_of(test)) for name in others)
    ]


def _running(module: str, since: str, record: Record) -> set[str] | None:
    """List the test files that ran what changed in a module; None where the record cannot say.

    What changed outside of functions counts where it is imported, too.
    """
    found = record.tests_of(module)
    if found is None or not (ROOT / module).is_file():
        return None
    try:
        inside = function_lines((ROOT / module).read_text(encoding="utf-8"))
    except SyntaxError:
        return None
    if _changed_lines(module, since) <= inside:
        return found
    packages = (name for name in PACKAGES if name != "tests")
    for importer in (file for name in packages for file in (ROOT / name).rglob("*.py")):
        if ROOT / module in imported_files(importer):
            ran = record.tests_of(str(importer.relative_to(ROOT)))
            if ran is None:
                return None
            found |= ran
    return found


def _changed_lines(module: str, since: str) -> set[int]:
    command = ["git", "diff", "-U0", since, "--", module]
    diff = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    hunks = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", diff, re.MULTILINE)
    return {
        line for first, count in hunks for line in range(int(first), int(first) + max(int(count or 1), 1))
    }


def _concerns(changed: Path, test: Path, files: Iterable[Path]) -> bool:
    beside = changed.parts[0] == "tests" and test.is_relative_to(ROOT / changed.parent.parent)
    # Tests of pages read a whole folder of them.
    beside |= changed.suffix == ".md" and test.is_relative_to(ROOT / "tests" / changed.parts[0])
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
    chosen = tests_of(changed_files(options.since), options.since)
    print(f"{len(chosen)} test files and the smoke test", flush=True)
    few = len(chosen) <= FEW
    command = [sys.executable, "-m", "pytest", *([] if few else WORKERS), "-m", IN_MAKE_TEST, *given]
    return subprocess.run([*command, *dict.fromkeys([*chosen, SMOKE])], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
