"""Which test files run the functions of a module, as recorded; for `make test-changed`.

By imports nearly every test needs every module: families, verbs and formats are found by name. `make
test-record` runs the suite under coverage.py and writes down whose functions each test file really calls,
in child processes, too.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.import_closure import PACKAGES, ROOT

RECORD = Path(__file__).with_name("executed_modules.json")
WORKERS = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
WIDE = 100
"""Modules that more test files run are left out: what concerns so many is not worth a choice."""
_FOLDER = ROOT / "build" / "executed"
_SETTINGS = """[run]
parallel = true
branch = true
data_file = {folder}/data
source_dirs =
    {sources}
concurrency = thread, multiprocessing
sigterm = true
patch =
    _exit
    fork
context = ${{EXECUTED_BY-}}
disable_warnings = no-data-collected, module-not-measured, couldnt-parse, module-not-imported
"""


class Record:
    """What the last recording found; test files and modules that came later are not in it."""

    def __init__(self, path: Path = RECORD) -> None:
        """Read the record; empty where there is none."""
        content = json.loads(path.read_text()) if path.is_file() else {"tests": [], "modules": {}}
        self.tests: Sequence[str] = content["tests"]
        self._modules: Mapping[str, Sequence[int]] = content["modules"]

    def tests_of(self, module: str) -> set[str] | None:
        """Return the test files that run a function of a module; None where the record does not say."""
        found = self._modules.get(module)
        return None if found is None else {self.tests[place] for place in found}


def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Tell this process's and its children's measurements which file the test is of."""
    import coverage

    file = item.nodeid.partition("::")[0]
    os.environ["EXECUTED_BY"] = file
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(file)


def function_lines(source: str) -> set[int]:
    """List the lines that run when a function is called, and not when the module is imported."""
    bodies = [n.body for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]
    return {line for body in bodies for line in range(body[0].lineno, (body[-1].end_lineno or 0) + 1)}


def main(arguments: Sequence[str]) -> int:
    """Run the suite under coverage.py and write the record."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    sources = "\n    ".join(
        str(ROOT / name) for name in PACKAGES if (ROOT / name).is_dir() and name != "tests"
    )
    settings = _FOLDER / "settings"
    settings.write_text(_SETTINGS.format(folder=_FOLDER, sources=sources))
    environment = {**os.environ, "COVERAGE_PROCESS_START": str(settings), "EXECUTED_BY": ""}
    command = [sys.executable, "-m", "pytest", "-p", __spec__.name, *WORKERS]
    command += ["-m", "not zoo and not faults", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        _write(_combined(settings))
    return done.returncode


def _combined(settings: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield each module with the test files that ran its functions."""
    import coverage

    os.environ["EXECUTED_BY"] = ""
    measured = coverage.Coverage(data_file=str(_FOLDER / "data"), config_file=str(settings))
    measured.combine()
    data = measured.get_data()
    for path in sorted(data.measured_files()):
        module = Path(path)
        if module.suffix == ".py" and not module.name.endswith("_pb2.py"):
            inside = function_lines(module.read_text(encoding="utf-8"))
            contexts = data.contexts_by_lineno(path)
            ran = {name for line in inside & set(contexts) for name in contexts[line]}
            yield str(module.relative_to(ROOT)), {t for name in ran for t in name.split("|") if t}


def _write(modules: Iterator[tuple[str, set[str]]]) -> None:
    ran = dict(modules)
    tests = sorted({test for found in ran.values() for test in found})
    places = {test: place for place, test in enumerate(tests)}
    rows = {
        module: sorted(places[test] for test in found)
        for module, found in ran.items()
        if 0 < len(found) <= WIDE
    }
    lines = ",\n".join(f"{json.dumps(module)}: {json.dumps(row)}" for module, row in rows.items())
    RECORD.write_text(f'{{"tests": {json.dumps(tests, indent=0)},\n"modules": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
