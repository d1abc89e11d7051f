from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from components.publishing.destination import PushDestination
from detection_core.artifacts.published import PublishedVersion
from detection_core.artifacts.run_info import RUN
from pipeline.cli import parser, verbs
from pipeline.cli.group import Group
from pipeline.local.workspace import Workspace
from tests.support.object_store import s3_server

ROOT = Path(__file__).parents[3]
_RUN = json.dumps(
    dict.fromkeys(("run_id", "pipeline_name", "started", "finished", "settings_text", "workspace"), "r")
    | {"status": "succeeded"}
)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from pipeline import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'tensorflow', 'tf_keras', 'apache_beam', 'tfx', 'numpy', 'matplotlib', 'google.protobuf',\n"
        "         'pydantic', 'rich', 'shtab'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip().endswith("[]")


def _verbs():
    """Every verb with the words that lead to it."""
    for verb in verbs.VERBS:
        inner = verb.verbs if isinstance(verb, Group) else ()
        for words, found in [([verb.name, v.name], v) for v in inner] or [([verb.name], verb)]:
            yield pytest.param(words, found, id=" ".join(words))


@pytest.mark.parametrize(("words", "verb"), _verbs())
def test_every_verb_has_help_with_an_example(words, verb, capsys):
    with pytest.raises(SystemExit) as stop:
        parser.main([*words, "--help"])
    assert stop.value.code == 0
    assert verb.example in capsys.readouterr().out


@pytest.mark.parametrize(("words", "verb"), _verbs())
def test_the_example_of_a_verb_parses(words, verb):
    found = shlex.split(verb.example)
    assert found[: len(words) + 1] == ["detflow", *words]
    assert parser.build_parser().parse_args(found[1:]).command is verb.command


def test_the_first_verb_of_a_group_may_be_left_out():
    short, long = (
        parser.build_parser().parse_args(["runs", *words, "DIR", "--json"]) for words in ([], ["list"])
    )
    assert short == long and short.workspace == "DIR"
    assert parser.build_parser().parse_args(["runs"]) == parser.build_parser().parse_args(["runs", "list"])
    with pytest.raises(SystemExit):
        parser.build_parser().parse_args(["schedule", "no-verb"])


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_some_verbs_of_a_group_need_no_group(verb):
    short, long = (parser.build_parser().parse_args([*words, verb, "RUN"]) for words in ([], ["runs"]))
    assert short == long and short.run_id == "RUN"


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for folder in ("docs", "examples", "k8s") for page in sorted((ROOT / folder).rglob("*.md"))),
]


def _documented_commands():
    for path in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if line.strip().startswith("detflow ") or ".venv/bin/detflow " in line:
                    yield pytest.param(
                        shlex.split(line, comments=True), id=f"{path.name}: {line.strip()[:60]}"
                    )


@pytest.mark.parametrize("words", _documented_commands())
def test_a_documented_command_parses(words):
    # Placeholders such as VERSION stand where the command takes any text.
    assert parser.build_parser().parse_args(words[1:]).command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_targets_and_modules_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text, re.MULTILINE)) <= targets
    for name in re.findall(
        r"python -m ((?:pipeline|components|component_specs|detection_core|tests)\.[\w.]+\w)", text
    ):
        assert name.isupper() or name.endswith(".NAME") or importlib.util.find_spec(name), name


def test_a_settings_file_is_validated(digits_settings, capsys):
    assert parser.main(["validate", digits_settings, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0] == "config_gen"


def test_hyperparameters_of_automl_are_validated(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text("name: efficientdet-lite0\nnum_classes: 3\nimage_size: 128\nverbose: 0\n")
    assert parser.main(["validate", str(path), "--set", "num_classes=4"]) == 0
    printed = capsys.readouterr().out
    assert "valid hyper-parameters" in printed and "without effect: verbose" in printed
    assert "128 x 128 x 3 from automl_resizer" in printed and "classes      4" in printed
    path.write_text("name: efficientdet-lite0\nstrategy: tpu\n")
    assert parser.main(["validate", str(path)]) == 2
    assert "hparams.strategy: expected gpus" in capsys.readouterr().err


def test_a_pipeline_config_is_validated(capsys):
    assert parser.main(["validate", str(ROOT / "examples" / "digits" / "pipeline.config")]) == 0
    assert "a valid pipeline.config" in capsys.readouterr().out


def test_what_a_config_asks_for_and_cannot_be_built_is_told_with_its_line(capsys):
    path = ROOT / "examples" / "digits" / "pipeline.config"
    rows = path.read_text(encoding="utf-8").split("\n")
    line = next(i for i, row in enumerate(rows, start=1) if "image_resizer" in row)
    resizer = "model.ssd.image_resizer=keep_aspect_ratio_resizer { max_dimension: 640 }"
    assert parser.main(["validate", str(path), "--set", resizer]) == 2
    assert f"{path}:{line}: model.ssd.image_resizer: expected a resizer" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["settings", "config"])
def test_a_clip_range_that_no_file_can_hold_is_refused_before_anything_is_trained(
    digits_settings, capsys, kind
):
    head = "model.ssd.box_predictor.weight_shared_convolutional_box_predictor"
    clip = f"{head}.box_encodings_clip_range={{ min: -5 max: 5 }}"
    path = digits_settings if kind == "settings" else str(ROOT / "examples" / "digits" / "pipeline.config")
    assert parser.main(["validate", path, "--set", clip]) == 2
    printed = capsys.readouterr().err
    assert f"{head}.box_encodings_clip_range: expected box codes as the network gives them" in printed
    assert "pipeline.config:" in printed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_classes:", "num_clases:", "did you mean num_classes?"),
        ("batch_size: ", 'batch_size: "', "expected a whole number"),
        ("weight_bits: 8", "weight_bits: 5", "expected 8, or 4 for a file with 4 bits"),
        ("matched_threshold: 0.5", "matched_threshold: 0.1", "expected at most matched_threshold"),
        ("ssd_mobilenet_v2_fpn_keras", "ssd_mobilenet_v2_fpn", "`detflow config convert` writes it"),
    ],
)
def test_a_config_that_cannot_be_followed_is_refused_by_line_without_tensorflow(tmp_path, old, new, message):
    text = (ROOT / "examples" / "digits" / "pipeline.config").read_text(encoding="utf-8")
    assert old in text
    changed = tmp_path / "pipeline.config"
    head, _, tail = text.partition(old)
    if new.endswith('"'):
        value, _, rest = tail.partition("\n")
        tail = f'{value}"\n{rest}'
    changed.write_text(head + new + tail, encoding="utf-8")
    code = (
        "import sys; from pipeline import cli\n"
        f"print(cli.main(['validate', {str(changed)!r}]))\n"
        "print(sorted({'tensorflow', 'tf_keras', 'apache_beam', 'tfx'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["2", "[]"]
    assert re.search(rf"{re.escape(str(changed))}:\d+: ", done.stderr) and message in done.stderr


def test_overrides_and_override_files_count_when_settings_are_validated(digits_settings, tmp_path, capsys):
    more = tmp_path / "more.config"
    more.write_text("train_config { batch_size: 0 }", encoding="utf-8")
    assert parser.main(["validate", digits_settings, "--override-file", str(more)]) == 2
    assert "train_config.batch_size" in capsys.readouterr().err
    assert (
        parser.main(["validate", digits_settings, "--override-file", str(more), "--set", "batch_size=2"]) == 0
    )
    assert parser.main(["validate", digits_settings, "--set", "learning_rate=much"]) == 2
    assert "expected a number, found much" in capsys.readouterr().err


def test_a_mistake_of_the_user_is_one_message_and_exit_code_2(digits_settings, capsys):
    assert parser.main(["validate", digits_settings, "--set", "dta.path=x"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("detflow: ConfigError: ") and "Traceback" not in error
    assert parser.main(["validate", digits_settings, "--set", "dta.path=x", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "ConfigError"


@pytest.mark.parametrize("verb", ["import", "evaluate"])
def test_an_output_folder_that_cannot_be_made_is_one_message(verb, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    words = {
        "import": [
            "--config",
            str(ROOT / "examples/digits/pipeline.config"),
            "--checkpoint",
            "x",
            "--label-map",
            "x",
        ],
        "evaluate": ["--model", "x", "--examples", "x"],
    }[verb]
    assert parser.main([verb, *words, "--output", str(tmp_path / "file" / "out")]) == 2
    assert "out: cannot make the output folder (Not a directory)" in capsys.readouterr().err.replace(
        "/evaluation:", ":"
    )


def test_a_place_without_runs_says_so(tmp_path, capsys):
    assert parser.main(["runs", str(tmp_path)]) == 2
    assert "expected a settings file or a workspace" in capsys.readouterr().err
    assert parser.main(["rollback", str(tmp_path)]) == 2


def test_a_crash_keeps_its_traceback(digits_settings, monkeypatch):
    from pipeline.cli import workflow

    def crash(_):
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(workflow, "_describe", crash)
    monkeypatch.setattr("pipeline.local.local_run.run_locally", lambda *_: None)
    with pytest.raises(RuntimeError, match="a defect of ours"):
        parser.main(["run", digits_settings])


def test_ctrl_c_says_how_to_go_on(digits_settings, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.local.local_run.run_locally", interrupted)
    assert parser.main(["run", digits_settings]) == 130
    said = capsys.readouterr().err
    assert re.fullmatch(r"interrupted after \d+\.\d s; run the same command again to resume\n", said)


def test_a_full_disk_is_one_message(tmp_path, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "file").write_text("x")
    record = RUN.parse(_RUN, "run.json")
    Workspace(str(tmp_path)).write_info(record)
    for place, told in (("file/below.html", "a file stands where"), ("runs", "a folder stands where")):
        assert parser.main(["report", str(tmp_path), "--output", str(tmp_path / place)]) == 2
        error = capsys.readouterr().err
        assert told in error and "Traceback" not in error
    assert not [p for p in tmp_path.rglob("*.partial")]


def test_a_destination_on_a_store_is_rolled_back(tmp_path, capsys):
    (tmp_path / "saved_model.pb").write_text("graph")
    with s3_server() as bucket:
        destination = PushDestination(f"{bucket}/pushed")
        first, _ = (
            destination.publish(str(tmp_path), "", PublishedVersion(number=0), 0).number for _ in "ab"
        )
        assert parser.main(["rollback", f"{bucket}/pushed"]) == 0
        assert f"version {first}" in capsys.readouterr().out and destination.current().number == first
