from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from pipeline.cli import parser
from pipeline.cli.completion import SHELLS

_ASK = """
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$(($# - 2))
COMP_LINE="${*:2}"
COMP_POINT=${#COMP_LINE}
$(complete -p detflow | sed 's/.*-F \\([^ ]*\\).*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "detflow.bash"
    made = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", "completion", "bash"],
        capture_output=True,
        text=True,
        check=True,
    )
    path.write_text(made.stdout)
    return str(path)


def _complete(script, *words):
    asked = subprocess.run(
        ["bash", "-c", _ASK, "bash", script, "detflow", *words], capture_output=True, text=True, check=True
    )
    return {word.strip() for word in asked.stdout.splitlines()}


def test_a_shell_completes_verbs_groups_and_flags(script):
    assert {"submit", "schedule", "completion"} <= _complete(script, "")
    assert _complete(script, "val") == {"validate"}
    assert {"create", "pause", "run-now"} <= _complete(script, "schedule", "")
    assert {"--token-file", "--token-env"} <= _complete(script, "submit", "--token")
    assert {"bash", "zsh", "tcsh"} <= _complete(script, "completion", "")


def test_a_shell_completes_file_names(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.yaml").touch()
    (tmp_path / "folder").mkdir()
    assert "settings.yaml" in _complete(script, "validate", "set")
    assert "settings.yaml" in _complete(script, "submit", "--ca-file", "set")
    assert _complete(script, "evaluate", "--model", "") & {"folder", "folder/"}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_one_that_the_shell_reads(shell, capsys, tmp_path):
    assert parser.main(["completion", shell, "--json"]) == 0
    script = json.loads(capsys.readouterr().out)["script"]
    assert parser.main(["completion", shell]) == 0
    assert capsys.readouterr().out == script.rstrip("\n") + "\n", "nothing of it is taken for hostile"
    assert "detflow" in script and "schedule" in script
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        subprocess.run([shell, "-n", str(path)], check=True, timeout=60)


def test_help_does_not_load_what_makes_the_scripts():
    code = "import sys; from pipeline.cli import parser; parser.build_parser(); print('shtab' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
