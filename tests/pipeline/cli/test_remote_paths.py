"""Every verb and every setting that takes a path takes one on an object store, or says why not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.publishing.destination import PushDestination
from detection_core.artifacts import detector as layout
from detection_core.artifacts.published import PublishedVersion
from detection_core.artifacts.run_info import RunInfo
from detection_core.builders.detector import build_detector
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.ssd.checkpoint_names.object_keys import object_keys
from detection_core.exporters.detector_folder import write_detector
from detection_core.storage import files
from detection_core.training.object_checkpoint import VARIABLE_SUFFIX
from pipeline.cli import main, verbs
from pipeline.cli.base import Argument
from pipeline.cli.group import Group
from pipeline.dag import build_dag
from pipeline.kubeflow.source import open_source
from pipeline.local.workspace import Workspace
from pipeline.run_checks import run_checks
from pipeline.settings.setting_types import IsPath, Settings
from pipeline.settings.settings_file import load_settings
from pipeline.tuning.space import load_space
from tests.support.dataset_files import Coco
from tests.support.field_checkpoints import write_object_checkpoint
from tests.support.object_store import s3_server
from tests.support.tiny_training import LABELS, config_text, write_examples

SETTINGS = """
name: remote
workspace: WORKSPACE
data: {path: data, label_map: label_map.pbtxt, shards_uri: shards}
model: {config: pipeline.config, override_files: [partial.config]}
train: {warm_start: base}
validation: {schema_file: schema.pbtxt}
push: {destination: pushed}
schedule: {cron: 0 0 3 * * *}
"""
REWRITER = "graph_rewriter { quantization { delay: 0 weight_bits: 8 activation_bits: 8 } }"
STEPS = ["--set", "train_config.num_steps=1"]
FEW = re.sub(r"(max_detections_per_class|max_total_detections): \d+", r"\1: 3", config_text(1))
"""So few boxes that the gate on boxes says nothing of this detector, which has learned nothing."""

REMOTE = {
    "run settings",
    "run --override-file",
    "validate file",
    "validate --override-file",
    "report workspace",
    "report --output",
    "rollback destination",
    "compile settings",
    "compile --override-file",
    "compile --output",
    "submit file",
    "submit --override-file",
    "runs list workspace",
    "schedule create file",
    "schedule create --override-file",
    "schedule preview settings",
    "schedule run-local settings",
    "schedule run-local --override-file",
    "train --config",
    "train --examples",
    "train --output",
    "train --warm-start",
    "train --override-file",
    "import --config",
    "import --checkpoint",
    "import --label-map",
    "import --output",
    "import --override-file",
    "evaluate --model",
    "evaluate --watch",
    "evaluate --examples",
    "evaluate --output",
    "evaluate --baseline",
    "quantize --config",
    "quantize --model",
    "quantize --examples",
    "quantize --output",
    "quantize --override-file",
    "export --model",
    "export --quantized-model",
    "export --examples",
    "export --output",
    "export-saved-model --model",
    "export-saved-model --output",
    "export-saved-model --examples",
    "bench files",
    "bench --output",
    "bench --examples",
    "bench --override-file",
    "tune settings",
    "tune --space",
    "tune --override-file",
    "inspect path",
    "compare file",
    "compare --model",
    "compare --quantized-model",
    "compare --examples",
    "sensitivity --model",
    "sensitivity --examples",
    "sensitivity --output",
    "predict --model",
    "predict images",
    "predict --output",
    "config file",
    "config --output",
    "config --override-file",
    "config --model-config",
    "config --train-config",
    "config --hparams",
    "config --train-input",
    "config --eval-config",
    "config --eval-input",
    "config --graph-rewriter",
    "data report --output",
    "data report --config",
    "data convert --output",
    "data preview --data",
    "data preview --override-file",
    "data preview --examples",
    "data preview --output",
}
"""Arguments that are paths; the tests below use each of them, but for those of verbs that share their reader:
`settings`, `place` and `file` of the verbs of a cluster, `tune settings`, and `--override-file`."""

LOCAL_OPTIONS = {"--token-file", "--ca-file"}
"""Secrets and certificates of this machine."""
LOCAL_ARGUMENTS = {"init --output", "tune --output"}
"""Where a person edits what is written, and where a search is kept under a lock."""
LOCAL_SETTINGS = {"workspace", "kubeflow.connection.token_file", "kubeflow.connection.ca_file"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bucket with examples, configurations, a detector, a checkpoint and an image; yields its address."""
    root = tmp_path_factory.mktemp("remote")
    examples = write_examples(root / "examples")
    (examples / "Split-train").rename(examples / "Split-eval")
    write_examples(root / "more")
    (root / "more" / "Split-train").rename(examples / "Split-train")
    config = parse_pipeline_config(FEW)
    model = build_detector(config.model)
    write_detector(model, config, load_label_map(str(examples / "label_map.pbtxt")), str(root / "base"))
    objects = {k.removesuffix(VARIABLE_SUFFIX): v.numpy() for k, v in object_keys(model.network).items()}
    (root / "zoo").mkdir()
    write_object_checkpoint(objects, root / "zoo" / "ckpt-0")
    texts = {
        "pipeline.config": f"{FEW}\n{REWRITER}",
        "partial.config": "train_config { num_steps: 1 }",
        "label_map.pbtxt": LABELS,
        "settings.yaml": SETTINGS.replace("WORKSPACE", str(root / "workspace")),
        "model.config": config_text(1).partition("train_config")[0].strip().removeprefix("model {")[:-1],
        "train.config": "batch_size: 2",
        "input.config": "label_map_path: 'x'",
        "eval.config": "num_examples: 3",
        "rewriter.config": "quantization { delay: 1 }",
        "hparams.yaml": "num_classes: 7",
        "schema.pbtxt": "feature { name: 'image/encoded' type: BYTES }",
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    Coco(root / "data").write()
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(root / "image.png")
    with s3_server() as bucket:
        files.copy_tree(str(root), f"{bucket}/all")
        yield f"{bucket}/all"


def _call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict:
    found = main([*arguments, "--json"])
    printed = capsys.readouterr().out
    assert found == code, printed
    return json.loads(printed)


def test_every_argument_that_is_a_path_is_in_the_table() -> None:
    """So a new one fails this test until somebody has thought of object stores."""
    paths = {f"{verb} {argument.flags[-1]}" for verb, argument in _arguments() if _is_path(argument)}
    others = {path for path in paths if path.split()[-1] not in (*LOCAL_OPTIONS, "--settings")}
    assert others == REMOTE | LOCAL_ARGUMENTS


def _arguments() -> Iterator[tuple[str, Argument]]:
    for entry in verbs.VERBS:
        for verb in entry.verbs if isinstance(entry, Group) else (entry,):
            name = f"{entry.name} {verb.name}" if isinstance(entry, Group) else verb.name
            yield from ((name, argument) for argument in verb.all_arguments())


def _is_path(argument: Argument) -> bool:
    marks = set(str(argument.options.get("metavar", "")).split("_"))
    named = argument.flags[-1] in (
        "--output",
        "file",
        "settings",
        "workspace",
        "destination",
        "--settings",
        "--config",
    )
    return named or bool(marks & {"DIR", "FILE", "PREFIX", "IMAGE", "SETTINGS"})


def test_paths_of_the_settings_are_taken_from_the_settings_own_folder(store: str) -> None:
    settings = load_settings(f"{store}/settings.yaml")
    paths = dict(_paths(settings, ""))
    given = {name: value for name, value in paths.items() if name not in LOCAL_SETTINGS}
    assert given == {
        "data.path": f"{store}/data",
        "data.label_map": f"{store}/label_map.pbtxt",
        "data.shards_uri": f"{store}/shards",
        "model.config": f"{store}/pipeline.config",
        "model.override_files": [f"{store}/partial.config"],
        "train.warm_start": f"{store}/base",
        "push.destination": f"{store}/pushed",
        "train.weights_mirror": "",
        "validation.schema_file": f"{store}/schema.pbtxt",
    }


def _paths(section: Settings, prefix: str) -> Iterator[tuple[str, object]]:
    """Every setting that is a path, with its value."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Settings):
            yield from _paths(value, f"{prefix}{name}.")
        elif any(isinstance(mark, IsPath) for mark in field.metadata):
            yield f"{prefix}{name}", value


def test_a_run_may_have_all_but_its_workspace_on_a_store(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load_settings(f"{store}/settings.yaml", ['data.splits={"train": 1.0}', "evaluate.split=train"])
    assert build_dag(settings).steps
    checks = run_checks(settings)
    assert checks["starting_weights"] and checks["data_fingerprint"]
    elsewhere = ["--set", f"workspace={store}/workspace"]
    refused = _call(capsys, "run", f"{store}/settings.yaml", *elsewhere, code=2)
    assert "expected a local folder as workspace" in refused["message"]
    for verb in ("report", "runs"):
        assert "expected a local folder" in _call(capsys, verb, f"{store}/workspace", code=2)["message"]


def test_settings_and_configurations_are_validated_where_they_are(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _call(capsys, "validate", f"{store}/settings.yaml")["valid"]
    override = ["--override-file", f"{store}/partial.config"]
    assert _call(capsys, "validate", f"{store}/pipeline.config", *override)["classes"] == 2
    missing = _call(capsys, "validate", f"{store}/settings.yaml", "--set", f"model.config={store}/x", code=2)
    assert f"no file {store}/x" in missing["message"]
    assert "cannot read" in _call(capsys, "validate", f"{store}/none.yaml", code=2)["message"]
    assert _call(capsys, "schedule", "preview", f"{store}/settings.yaml")


def test_configurations_are_shown_converted_and_joined_there(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for action in ("show", "convert"):
        output = f"{store}/{action}.config"
        _call(capsys, "config", action, f"{store}/pipeline.config", "-o", output)
        assert parse_pipeline_config(files.read_text(output)).model.ssd.num_classes == 2
    parts = ["model", "train", "input", "eval", "input", "rewriter"]
    flags = ["model-config", "train-config", "train-input", "eval-config", "eval-input", "graph-rewriter"]
    given = [t for f, p in zip(flags, parts, strict=True) for t in (f"--{f}", f"{store}/{p}.config")]
    override = ["--override-file", f"{store}/partial.config"]
    _call(capsys, "config", "join", *given, *override, "-o", f"{store}/joined.config")
    assert parse_pipeline_config(files.read_text(f"{store}/joined.config")).train_config.num_steps == 1
    hparams = ["--hparams", f"{store}/hparams.yaml", "-o", f"{store}/lite0.config"]
    _call(capsys, "config", "from-automl", "efficientdet-lite0", *hparams)
    translated = parse_pipeline_config(files.read_text(f"{store}/lite0.config"))
    assert translated.model.efficientdet.num_classes == 7


def test_packages_are_compiled_to_a_store_and_submitted_from_it(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _call(capsys, "compile", f"{store}/settings.yaml", "-o", f"{store}/package.yaml")
    with open_source(f"{store}/package.yaml", ()) as source:
        assert source.path == f"{store}/package.yaml" and Path(source.package.path).exists()
    with open_source(f"{store}/settings.yaml", (), [f"{store}/partial.config"]) as source:
        assert source.settings and source.settings.push_destination == f"{store}/pushed"


def test_a_report_is_written_to_a_store(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = Workspace(load_settings(f"{store}/settings.yaml").workspace)
    times = {"started": "2026-11-22T00:00:00+00:00", "finished": "2026-11-22T00:00:01+00:00"}
    fields = {"pipeline_name": "remote", "status": "succeeded", "settings_text": "", **times}
    workspace.write_info(RunInfo(run_id="20261122-000000-aaaa", workspace=workspace.root, **fields))
    assert len(_call(capsys, "runs", f"{store}/settings.yaml")) == 1
    _call(capsys, "report", f"{store}/settings.yaml", "--output", f"{store}/report.html")
    assert "remote" in files.read_text(f"{store}/report.html")


def test_data_are_shown_converted_and_fed_there(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = ["--config", f"{store}/pipeline.config"]
    _call(capsys, "data", "report", f"{store}/data", *config, "--output", f"{store}/looked-at")
    assert "<html" in files.read_text(f"{store}/looked-at/index.html")
    _call(capsys, "data", "convert", f"{store}/data", "--output", f"{store}/converted")
    assert files.list_matching(f"{store}/converted", "*.json")
    examples = ["--examples", f"{store}/examples"]
    _call(capsys, "data", "preview", config[1], *examples, "-n", "1", "--output", f"{store}/fed")
    assert files.exists(f"{store}/fed/index.html")


def test_what_a_person_edits_is_written_to_this_machine(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = _call(capsys, "init", f"{store}/data", "--output", f"{store}/first", code=2)
    assert f"{store}/first" in refused["message"]


@pytest.mark.parametrize("place", ["settings.yaml", "pushed"])
def test_a_version_on_a_store_is_rolled_back(
    store: str, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    files.remove_tree(f"{store}/pushed")
    destination = PushDestination(f"{store}/pushed")
    model = layout.serving_dir(f"{store}/base")
    first, second = (destination.publish(model, "", PublishedVersion(number=0, run_key=k), 0) for k in "ab")
    assert _call(capsys, "rollback", f"{store}/{place}")["version"] == first.number
    assert _call(capsys, "rollback", f"{store}/{place}", "--to", str(second.number))["version"] > first.number
    assert (
        "expected a settings file or a push destination"
        in (_call(capsys, "rollback", f"{store}/nowhere", code=2)["message"])
    )


def test_a_checkpoint_is_imported_measured_and_used(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"config": "pipeline.config", "checkpoint": "zoo/ckpt-0", "label-map": "label_map.pbtxt"}
    arguments = [text for name, path in given.items() for text in (f"--{name}", f"{store}/{path}")]
    made = _call(capsys, "import", *arguments, "--output", f"{store}/imported")
    assert made["model"] == f"{store}/imported/model" and made["checkpoint"] == f"{store}/zoo/ckpt-0"

    model = ["--model", made["model"]]
    output = ["--output", f"{store}/predicted"]
    (found,) = _call(capsys, "predict", *model, f"{store}/image.png", *output)
    assert files.exists(found["picture"]) and found["picture"].startswith(f"{store}/predicted/")

    compared = ["--baseline", f"{store}/base", "--examples", f"{store}/examples"]
    measured = _call(capsys, "evaluate", *model, *compared, "--output", f"{store}/evaluated")
    assert measured["images"] == 6 and measured["baseline"]
    assert json.loads(files.read_text(f"{store}/evaluated/evaluation/metrics.json")) == measured


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        ["--warm-start", "STORE/base"],
        [
            *("--set", "train_config.fine_tune_checkpoint=STORE/zoo/ckpt-0"),
            *("--set", "train_config.fine_tune_checkpoint_version=V2"),
            *("--set", "train_config.fine_tune_checkpoint_type=full"),
        ],
    ],
)
def test_training_goes_on_from_weights_on_a_store_and_keeps_its_checkpoints_there(
    store: str, capsys: pytest.CaptureFixture[str], start: list[str]
) -> None:
    common = ["--config", f"{store}/pipeline.config", "--examples", f"{store}/examples"]
    output = f"{store}/trained-{len(start)}"
    arguments = [*common, "--output", output, *(text.replace("STORE", store) for text in start)]
    first = _call(capsys, "train", *arguments, "--override-file", f"{store}/partial.config")
    assert store in first["started_from"]
    work = files.join(output, "work", first["fingerprint"])
    assert "ckpt-1.index" in files.list_dir(f"{work}/checkpoints") and files.list_dir(f"{work}/logs/train")
    watched = ["--watch", f"{output}/work", "--output", f"{output}/watched"]
    assert list(_call(capsys, "evaluate", *watched)["scores"]) == ["1"]
    assert len(files.read_text(f"{output}/watched/validation.jsonl").splitlines()) == 1
    assert _call(capsys, "train", *arguments)["start_step"] == 1
    assert files.exists(f"{output}/model/Format-Serving/saved_model.pb")


def test_the_layers_of_a_detector_are_measured_on_a_store(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--model", f"{store}/base", "--examples", f"{store}/examples", "--no-accuracy"]
    found = _call(capsys, "sensitivity", *common, "--output", f"{store}/sensitivity")
    assert json.loads(files.read_text(f"{store}/sensitivity/sensitivity.json")) == found


@pytest.mark.zoo
def test_a_detector_is_quantized_and_exported_on_a_store(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--model", f"{store}/base", "--examples", f"{store}/examples"]
    config = ["--config", f"{store}/pipeline.config"]
    assert _call(capsys, "quantize", *common, *config, *STEPS, "--output", f"{store}/quantized")["quantized"]
    quantized = ["--quantized-model", f"{store}/quantized/quantized_model", "--max-map-drop", "1.0"]
    _call(capsys, "export", *common, *quantized, "--formats", "int8", "--output", f"{store}/exported")
    path = f"{store}/exported/tflite/model_int8.tflite"
    assert _call(capsys, "compare", path, *common, *quantized[:2])["problems"] == []
    model = ["--model", path]
    assert _call(capsys, "predict", *model, f"{store}/image.png", "--output", f"{store}/predicted")


def test_the_input_of_a_training_is_measured_on_a_store(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--examples", f"{store}/examples", "--no-step", "--seconds", "0.1"]
    assert _call(capsys, "bench", "input", f"{store}/pipeline.config", *arguments)["stages"]


def test_the_space_of_a_search_is_read_from_a_store(store: str) -> None:
    path = f"{store}/space.yaml"
    files.write_text(path, "parameters: {train_config.batch_size: {choices: [2, 4]}}\ntrials: 3\n")
    assert load_space(path).trials == 3
