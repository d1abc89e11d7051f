import shutil
import subprocess
import sys

import pytest

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


def _run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """What bash offers after words."""
    path = tmp_path_factory.mktemp("completion") / "detflow.bash"
    path.write_text(_run(sys.executable, "-m", "pipeline.cli", "completion", "bash"))

    def complete(*words):
        asked = _run("bash", "-c", _ASK, "bash", str(path), "detflow", *words)
        return {word.strip() for word in asked.splitlines()}

    return complete


def test_a_shell_completes_verbs_groups_flags_and_file_names(complete, tmp_path, monkeypatch):
    assert {"submit", "schedule", "completion"} <= complete("")
    assert complete("val") == {"validate"}
    assert {"create", "pause", "run-now"} <= complete("schedule", "")
    assert {"--token-file", "--token-env"} <= complete("submit", "--token")
    assert {"bash", "zsh", "tcsh"} <= complete("completion", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.yaml").touch()
    (tmp_path / "folder").mkdir()
    assert "settings.yaml" in complete("validate", "set")
    assert "settings.yaml" in complete("submit", "--ca-file", "set")
    assert complete("evaluate", "--model", "") & {"folder", "folder/"}


def test_a_script_is_one_that_the_shell_reads_and_help_does_not_load_what_makes_it(cli, tmp_path):
    for shell in SHELLS:
        script = cli.json("completion", shell)["script"]
        assert cli("completion", shell) == script.rstrip("\n") + "\n", "nothing of it is taken for hostile"
        assert "detflow" in script and "schedule" in script
        if shutil.which(shell):
            (tmp_path / shell).write_text(script)
            _run(shell, "-n", str(tmp_path / shell))
    code = "import sys; from pipeline.cli import parser; parser.build_parser(); print('shtab' in sys.modules)"
    assert _run(sys.executable, "-c", code).strip() == "False"
