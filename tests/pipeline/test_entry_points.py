"""No program of the project imports Python files of the folder that it is started in."""

import ast
import os
import subprocess
import sys
from pathlib import Path

from detection_core.python_process import python_command
from tests.support.import_closure import ROOT
from tests.support.python_traps import set_traps

PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
# The command that starts Python, where the script `detflow` lies, and a tool for a checkout.
STARTS_PYTHON = {
    "detection_core/python_process.py",
    "detection_core/protos/compile.py",
    "pipeline/cli/schedule.py",
}
ENTRY_POINTS = (
    (*python_command("pipeline.cli"), "--version"),
    (*python_command("components.pusher"), "--help"),
    (os.path.join(os.path.dirname(sys.executable), "detflow"), "doctor", "--help"),
)


def test_entry_points_import_nothing_from_the_working_directory(tmp_path):
    executed = set_traps(tmp_path / "started_in")
    started = [
        subprocess.Popen(
            command, cwd=tmp_path / "started_in", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for command in ENTRY_POINTS
        if os.path.exists(command[0])
    ]
    said = [process.communicate(timeout=120)[0].decode() for process in started]
    assert [process.returncode for process in started] == [0] * len(said), said
    assert len(said) >= 2 and not executed.exists()


def test_every_python_process_is_started_by_python_command():
    found = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in Path(ROOT, package).rglob("*.py")
        if any(
            isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    }
    assert found == STARTS_PYTHON, "use detection_core.python_process.python_command"
