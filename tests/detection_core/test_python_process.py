"""Python programs that this one starts."""

import os
import subprocess
import sys

from detection_core.python_process import python_command, python_environment, python_started_by_libraries
from tests.support.python_traps import set_traps


def test_a_user_s_files_are_not_imported_in_the_place_of_modules(tmp_path):
    executed = set_traps(tmp_path)
    # Such a program, and what it or a library starts in its turn with a command of another's.
    of_another = [sys.executable, "-m", "detection_core.errors"]
    for started in (python_command("detection_core.python_process"), of_another):
        subprocess.run(started, cwd=tmp_path, env=python_environment(), check=True)
    assert not executed.exists()


def test_modules_are_found_without_installation(tmp_path):
    """`-S` leaves out site-packages, where the project is installed."""
    command, *flags = python_command("detection_core.errors")
    subprocess.run([command, "-S", *flags], cwd=tmp_path, env=python_environment(), check=True, timeout=60)


def test_the_environment_is_as_before_after_a_library_s_programs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}/own")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    before = dict(os.environ)
    with python_started_by_libraries():
        assert os.environ["PYTHONSAFEPATH"] == "1"
        # An empty entry is the working directory, too.
        assert "" not in os.environ["PYTHONPATH"].split(os.pathsep) and "/own" in os.environ["PYTHONPATH"]
    assert dict(os.environ) == before
