"""Judge mutants in a copy of the checkout by the tests that need their file, up to the first that fails."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mutants import forks
from tests.mutants.operators import Mutant
from tests.support.executed import Record
from tests.support.import_closure import ROOT, closure_of, imported_files

IN_CI = "not zoo and not faults"
MODULES = ("tensorflow", "tf_keras", "apache_beam", "pydantic", "PIL.Image", "hypothesis")
"""Of other projects: ours must be imported again with the fault in them."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What came of a mutant.

    Attributes:
        mutant: as put in.
        killed_by: the failed test; empty where none failed.
        complete: all tests that need the file ran, or one failed.
        seconds: taken.
    """

    mutant: Mutant
    killed_by: str
    complete: bool
    seconds: float


class Judge:
    """Runs tests on mutants in a copy of the checkout."""

    def __init__(
        self, folder: Path, seconds: float, root: Path = ROOT, modules: Sequence[str] = MODULES
    ) -> None:
        """Copy what git knows of the checkout, and start the process that runs the tests.

        Args:
            folder: for the copy; made again.
            seconds: at most for one mutant.
            root: of the checkout whose code and tests are judged.
            modules: imported once for all mutants.
        """
        shutil.rmtree(folder, ignore_errors=True)
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in filter(None, subprocess.check_output(command, cwd=root, text=True).split("\0")):
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        # What a mutant does not concern is not trained again.
        store = Path("build", "test-store")
        if (root / store).is_dir():
            shutil.copytree(root / store, folder / store, ignore=shutil.ignore_patterns("making-*"))
        author = ["-c", "user.name=judge", "-c", "user.email=judge@localhost"]
        for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "as judged"]):
            subprocess.run(["git", *words], cwd=folder, check=True)
        self._folder = folder
        self._seconds = seconds
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment["PYTHONPATH"] = os.pathsep.join([str(folder), str(folder / "pipeline" / "api")])
        environment["DETFLOW_TEST_STORE"] = str(folder / "build" / "test-store")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        command = [sys.executable, "-P", forks.__file__, *modules]
        self._forks = subprocess.Popen(command, cwd=folder, env=environment, **pipes, text=True)

    def __call__(self, mutant: Mutant, rounds: Sequence[Sequence[str]]) -> Verdict:
        """Put a mutant in, run the rounds of test files in their order and take it out again."""
        file = self._folder / mutant.file
        content = file.read_bytes()
        start = time.monotonic()
        file.write_bytes(mutant.apply(content))
        try:
            killed_by, complete = "", True
            for tests in rounds:
                if tests and complete and not killed_by:
                    killed_by, complete = self._run(tests, start + self._seconds - time.monotonic())
        finally:
            file.write_bytes(content)
        return Verdict(mutant, killed_by, complete, time.monotonic() - start)

    def failing(self, tests: Sequence[str]) -> list[str]:
        """List those of these tests that fail without a mutant, so that they prove nothing."""
        return [test for test in tests if self._run([test], self._seconds) != ("", True)]

    def close(self) -> None:
        """End the process that runs the tests."""
        self._forks.communicate()

    def _run(self, tests: Sequence[str], seconds: float) -> tuple[str, bool]:
        arguments = ["-xq", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-m", IN_CI, *tests]
        asked = {"arguments": arguments, "seconds": max(seconds, 1.0)}
        print(json.dumps(asked), file=self._forks.stdin, flush=True)
        answer = json.loads(self._forks.stdout.readline())
        if answer["code"] is None:
            return "", False
        if answer["code"] in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return "", True
        lines = answer["output"].splitlines()
        failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
        return (failed or [f"exit code {answer['code']}"])[0].partition(" ")[2].split(" - ")[0], True


def rounds_for(file: str, test_files: Sequence[Path], root: Path = ROOT) -> list[list[str]]:
    """List the test files whose import closure holds a file.

    Returns:
        Its mirror and those that import it; those that ran its functions when that was recorded; the others.
        Each with the smallest closures first. Rounds, because collecting all costs more than most mutants
        need.
    """
    path = root / file
    mirror = root / "tests" / Path(file).with_name(f"test_{Path(file).name}")
    ran = Record().tests_of(file) or set()
    rounds: list[list[tuple[bool, int, str]]] = [[], [], []]
    for test in test_files:
        closure = closure_of(test)
        if path in closure:
            name = str(test.relative_to(root))
            direct = test == mirror or path in imported_files(test)
            place = 0 if direct else 1 if name in ran else 2
            rounds[place].append((test != mirror, len(closure), name))
    return [[name for *_, name in sorted(found)] for found in rounds]
