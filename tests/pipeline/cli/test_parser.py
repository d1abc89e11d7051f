"""The parser, what all verbs share, and verbs of a few lines."""

import argparse
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from detection_core.errors import ConfigError
from pipeline.cli import parser
from pipeline.cli.base import Group, Result, Verb, argument, config_overrides, valid_config
from pipeline.cli.parser import SHELLS
from pipeline.local.workspace import Workspace
from tests.pipeline.conftest import DIGITS
from tests.support.cases import refused
from tests.support.command_line import run_python
from tests.support.run_records import record

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "examples" / "digits" / "pipeline.config"


@pytest.fixture(scope="module")
def built():
    return parser.build_parser()


def test_every_verb_has_a_name_a_sentence_and_help_with_an_example_that_parses(built, capsys):
    groups = [verb for verb in parser.VERBS if isinstance(verb, Group)]
    known = [([verb.name], verb) for verb in parser.VERBS if verb not in groups]
    for words, verb in known + [([group.name, verb.name], verb) for group in groups for verb in group.verbs]:
        assert refused(SystemExit, "", parser.main, [*words, "--help"]).code == 0
        assert verb.example in capsys.readouterr().out
        found = shlex.split(verb.example)
        assert found[: len(words) + 1] == ["detflow", *words]
        assert built.parse_args(found[1:]).command is verb.command
    short, long = (built.parse_args(["runs", *words, "DIR", "--json"]) for words in ([], ["list"]))
    assert short == long and short.workspace == "DIR"
    assert built.parse_args(["runs"]) == built.parse_args(["runs", "list"])
    for verb in ("cancel", "retry"):
        short, long = (built.parse_args([*words, verb, "RUN"]) for words in ([], ["runs"]))
        assert short == long and short.run_id == "RUN"
    refused(SystemExit, "", built.parse_args, ["schedule", "no-verb"])
    for found in (parser.VERBS, *(group.verbs for group in groups)):
        names = [verb.name for verb in found]
        assert len(set(names)) == len(names) and all(verb.summary.endswith(".") for verb in found)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", parser.version())


def test_a_workspace_stands_for_its_newest_examples(built, tmp_path):
    def found():
        return built.parse_args(["evaluate", "--examples", str(tmp_path), "--output", "x"]).examples

    made = tmp_path / "artifacts" / "example_gen" / "examples"
    made.mkdir(parents=True)
    assert found() == str(tmp_path)
    for name in ("9", "10", ".11.partial"):
        (made / name).mkdir()
    assert found() == str(made / "10")


def test_documented_commands_targets_and_modules_exist(built, capsys):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    package = r"python -m ((?:pipeline|components|component_specs|detection_core|tests)\.[\w.]+\w)"
    failures, commands = [], 0
    pages = [page for folder in ("docs", "examples", "k8s") for page in sorted((ROOT / folder).rglob("*.md"))]
    for page in [*sorted(ROOT.glob("*.md")), *pages]:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if line.strip().startswith("detflow ") or ".venv/bin/detflow " in line:
                    commands += 1
                    try:  # placeholders such as VERSION stand where the command takes any text
                        assert built.parse_args(shlex.split(line, comments=True)[1:]).command
                    except SystemExit:
                        failures.append((page.name, line, capsys.readouterr().err))
        named = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text, re.MULTILINE))
        failures += [(page.name, f"make {target}") for target in named - targets]
        for name in re.findall(package, text):
            if not (name.isupper() or name.endswith(".NAME") or importlib.util.find_spec(name)):
                failures.append((page.name, name))
    assert not failures and commands > 100, failures


def test_settings_hyperparameters_and_their_overrides_are_validated(digits_settings, tmp_path, cli):
    assert cli.json("validate", digits_settings)["steps"][0] == "config_gen"
    assert re.search(r"\npusher +trainer\.model, ", cli("validate", digits_settings))
    path = tmp_path / "mine.yaml"
    path.write_text("name: efficientdet-lite0\nnum_classes: 3\nimage_size: 128\nverbose: 0\n")
    printed = cli("validate", path, "--set", "num_classes=4")
    assert "valid hyper-parameters" in printed and "without effect: verbose" in printed
    assert "128 x 128 x 3 from automl_resizer" in printed and "classes      4" in printed
    path.write_text("name: efficientdet-lite0\nstrategy: tpu\n")
    assert "hparams.strategy: expected gpus" in cli.refused("validate", path)
    more = tmp_path / "more.config"
    more.write_text("train_config { batch_size: 0 }", encoding="utf-8")
    words = ["validate", digits_settings, "--override-file", more]
    assert "train_config.batch_size" in cli.refused(*words) and cli(*words, "--set", "batch_size=2")
    told = cli.refused("validate", digits_settings, "--set", "learning_rate=much")
    assert "expected a number, found much" in told


def test_what_a_config_asks_for_and_cannot_be_built_is_told_with_its_line(digits_settings, cli):
    assert "a valid pipeline.config" in cli("validate", CONFIG)
    rows = CONFIG.read_text(encoding="utf-8").split("\n")
    line = next(i for i, row in enumerate(rows, start=1) if "image_resizer" in row)
    resizer = "model.ssd.image_resizer=keep_aspect_ratio_resizer { max_dimension: 640 }"
    told = cli.refused("validate", CONFIG, "--set", resizer)
    assert f"{CONFIG}:{line}: model.ssd.image_resizer: expected a resizer" in told
    clip = "model.ssd.box_predictor.weight_shared_convolutional_box_predictor.box_encodings_clip_range"
    for path in (digits_settings, CONFIG):
        printed = cli.refused("validate", path, "--set", f"{clip}={{ min: -5 max: 5 }}")
        assert f"{clip}: expected box codes as the network gives them" in printed
        assert "pipeline.config:" in printed


def test_help_and_refusals_by_line_import_nothing_heavy(tmp_path):
    text, path = CONFIG.read_text(encoding="utf-8"), tmp_path / "pipeline.config"
    batch = re.search("batch_size: .*\n", text)[0]
    cases = {}
    for number, (old, new, message) in enumerate((
        ("num_classes:", "num_clases:", "did you mean num_classes?"),
        (batch, batch.replace(": ", ': "').replace("\n", '"\n'), "expected a whole number"),
        ("weight_bits: 8", "weight_bits: 5", "expected 8, or 4 for a file with 4 bits"),
        ("matched_threshold: 0.5", "matched_threshold: 0.1", "expected at most matched_threshold"),
        ("ssd_mobilenet_v2_fpn_keras", "ssd_mobilenet_v2_fpn", "`detflow config convert` writes it"),
    )):  # fmt: skip
        assert old in text
        path = tmp_path / f"{number}.config"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        cases[str(path)] = message
    code = f"""
import sys; from pipeline import cli
light = {{'numpy', 'yaml', 'google.protobuf', 'pydantic', 'rich', 'shtab', 'matplotlib'}}
heavy = {{'tensorflow', 'tf_keras', 'apache_beam', 'tfx'}}
try: cli.main(['--help'])
except SystemExit: pass
print(sorted((light | heavy) & set(sys.modules)))
print([cli.main(['validate', path]) for path in {list(cases)}])
print(sorted(heavy & set(sys.modules)))
"""
    done = run_python(code)
    assert done.stdout.splitlines()[-3:] == ["[]", "[2, 2, 2, 2, 2]", "[]"]
    for (path, message), line in zip(cases.items(), done.stderr.splitlines(), strict=True):
        assert re.search(rf"{re.escape(path)}:\d+: ", line) and message in line


def test_a_mistake_of_the_user_is_one_message_and_exit_code_2(digits_settings, tmp_path, cli):
    words = ["validate", digits_settings, "--set", "dta.path=x"]
    assert cli.refused(*words).startswith("detflow: ConfigError: ")
    assert cli.json(*words, code=2)["error"] == "ConfigError"
    assert "expected a settings file or a workspace" in cli.refused("runs", tmp_path)
    assert cli.refused("rollback", tmp_path)
    (tmp_path / "file").write_text("x")
    output = ["--output", tmp_path / "file" / "out"]
    for words in (
        ["import", "--config", CONFIG, "--checkpoint", "x", "--label-map", "x"],
        ["evaluate", "--model", "x", "--examples", "x"],
    ):
        told = cli.refused(*words, *output).replace("/evaluation:", ":")
        assert "out: cannot make the output folder (Not a directory)" in told
    (tmp_path / "runs").mkdir()
    Workspace(str(tmp_path)).write_info(record(run_id="r"))
    for place, told in (("file/below.html", "a file stands where"), ("runs", "a folder stands where")):
        assert told in cli.refused("report", tmp_path, "--output", tmp_path / place)
    assert not [p for p in tmp_path.rglob("*.partial")]


def test_a_crash_keeps_its_traceback_and_ctrl_c_says_how_to_go_on(digits_settings, monkeypatch, cli):
    crash = mock.Mock(side_effect=RuntimeError("a defect of ours"))
    monkeypatch.setattr("pipeline.local.run_summary.summarise", crash)
    monkeypatch.setattr("pipeline.local.local_run.run_locally", lambda *_: None)
    refused(RuntimeError, "a defect of ours", parser.main, ["run", digits_settings])
    monkeypatch.setattr("pipeline.local.local_run.run_locally", mock.Mock(side_effect=KeyboardInterrupt))
    cli("run", digits_settings, code=130)
    assert re.fullmatch(r"interrupted after \d+\.\d s; run the same command again to resume\n", cli.err)


def test_arguments_that_cost_time_are_made_when_the_verb_is_used():
    made = []

    def costly():
        made.append(1)
        yield from (argument("a"), argument("--b"), argument("--c"))

    verb = Verb(name="v", summary="s", example="e", all_arguments=costly, command=print)
    assert not made
    assert [a.flags for a in verb.all_arguments()] == [("a",), ("--b",), ("--c",)] and made == [1]
    assert Result(text="", data=None).exit_code == 0


def test_overrides_are_split_and_a_config_has_them_or_is_refused_with_line_and_field():
    assert config_overrides(["b = 1", "a=x=y", "b="]) == [("b", " 1"), ("a", "x=y"), ("b", "")]
    assert config_overrides([]) == []
    with pytest.raises(ConfigError, match="--set: expected KEY=VALUE, found 'batch_size'"):
        config_overrides(["a=1", "batch_size"])

    def valid(override, file=DIGITS / "pipeline.config"):
        return valid_config(argparse.Namespace(file=str(file), overrides=[override], override_files=[]))

    assert valid("train_config.batch_size=3").train_config.batch_size == 3
    refused(ConfigError, "batch_size", valid, "train_config.batch_size=-1")
    refused(ConfigError, "nowhere", valid, "train_config.batch_size=3", "/nowhere.config")


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


def test_a_shell_completes_verbs_groups_flags_and_files_by_a_script_it_reads(tmp_path, monkeypatch, cli):
    path = tmp_path / "detflow.bash"
    path.write_text(_run(sys.executable, "-m", "pipeline.cli", "completion", "bash"))

    def complete(*words):
        """What bash offers after words."""
        asked = _run("bash", "-c", _ASK, "bash", str(path), "detflow", *words)
        return {word.strip() for word in asked.splitlines()}

    assert {"submit", "schedule", "completion"} <= complete("") and complete("val") == {"validate"}
    assert {"create", "pause", "run-now"} <= complete("schedule", "")
    assert {"--token-file", "--token-env"} <= complete("submit", "--token")
    assert {"bash", "zsh", "tcsh"} <= complete("completion", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.yaml").touch()
    (tmp_path / "folder").mkdir()
    assert "settings.yaml" in complete("validate", "set")
    assert "settings.yaml" in complete("submit", "--ca-file", "set")
    assert complete("evaluate", "--model", "") & {"folder", "folder/"}
    for shell in SHELLS:
        script = cli.json("completion", shell)["script"]
        assert cli("completion", shell) == script.rstrip("\n") + "\n", "nothing of it is taken for hostile"
        assert "detflow" in script and "schedule" in script
        if shutil.which(shell):
            (tmp_path / shell).write_text(script)
            _run(shell, "-n", str(tmp_path / shell))
    code = "import sys; from pipeline.cli import parser; parser.build_parser(); print('shtab' in sys.modules)"
    assert _run(sys.executable, "-c", code).strip() == "False"
