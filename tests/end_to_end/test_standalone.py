"""Each step as a command, one after the other on the same examples."""

import os

import pytest

from component_specs import ExampleGenJob
from components.example_gen.run import run as generate
from detection_core.artifacts.model_run import VALIDATIONS
from pipeline.cli.parser import main
from tests.end_to_end.conftest import ROOT, SMALL, Workflow
from tests.support.plain_backbone import PLAIN
from tests.support.tiny_training import LABELS, config_text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

CONFIG = ROOT / "examples" / "digits" / "pipeline.config"
SPLITS = {split: {"annotations": f"{split}.json", "images": f"images/{split}"} for split in ("train", "eval")}


@pytest.fixture(scope="module")
def examples(tmp_path_factory, scenes):
    folder = tmp_path_factory.mktemp("examples") / "examples"
    generate(ExampleGenJob(examples=str(folder), data_path=str(scenes), splits=SPLITS))
    return folder


def test_train_evaluate_quantize_export(examples, scenes, tmp_path):
    cli = Workflow(tmp_path, scenes)
    small = (*SMALL[:2], f"model.ssd.feature_extractor.type={PLAIN}")
    common = ["--examples", examples, "--output", tmp_path, *(w for s in small for w in ("--set", s))]

    trained = cli.call("train", "--config", CONFIG, *common, "--set", "train_steps=4")
    assert trained["steps"] == 4

    watched = cli.call("evaluate", "--watch", tmp_path / "work", "--output", tmp_path / "watched")
    assert list(watched["scores"]) == ["4"]
    refused = cli.call("evaluate", "--output", tmp_path / "none", code=2)
    assert "--model: expected a folder, found none" in refused["message"]

    # What the config's own reader names, where no examples are given.
    records = f"train_input_path={examples}/Split-train/*.tfrecord"
    changes = (records, f"label_map_path={examples}/label_map.pbtxt", *small, "train_steps=1")
    own = [word for change in changes for word in ("--set", change)]
    warm = ["--warm-start", tmp_path / "model", "--output", tmp_path / "again"]
    again = cli.call("train", "--config", CONFIG, *own, *warm)
    assert sorted(os.listdir(tmp_path / "again")) == ["model", "model_run", "native.log", "work"]
    assert "weights of" in again["started_from"]

    model = ["--model", tmp_path / "model"]
    evaluated = cli.call("evaluate", *model, "--examples", examples, "--output", tmp_path)
    assert evaluated["images"] == 8 and evaluated["blessed"]

    changes = ["--set", "train_steps=2", "--set", "train_config.validation.every_steps=1"]
    quantized = cli.call("quantize", "--config", CONFIG, *model, *common, *changes)
    assert quantized["quantized"]
    validations = VALIDATIONS.read(str(tmp_path / "quantized_run"))
    assert [line.step for line in validations] == [1, 2]

    files = ["--quantized-model", tmp_path / "quantized_model", "--max-map-drop", "1.0"]
    sizes = ["--max-detections", "20", "--representative-examples", "4"]
    exported = cli.call("export", *model, *files, *sizes, "--examples", examples, "--output", tmp_path)
    written = [f"model_{name}{form}.tflite" for name in ("float32", "int8") for form in ("", "_headless")]
    assert [f["file"] for f in exported["files"]] == written
    assert sorted(os.listdir(tmp_path / "tflite")) == ["decoding.json", "labels.txt", *written]
    file = tmp_path / "tflite" / "model_int8.tflite"
    assert [1, 20, 4] in [output["shape"] for output in cli.call("inspect", file)["outputs"]]
    compared = cli.call("compare", file, *model, *files[:2], "--examples", examples)
    assert compared["heads"] == exported["files"][2]["network"]["heads"]


def test_what_does_not_fit_is_refused_before_training(examples, scenes, tmp_path):
    cli, config = Workflow(tmp_path, scenes), ["--config", CONFIG, "--output", tmp_path]
    failure = cli.call("train", *config, "--examples", examples, "--set", "model.ssd.num_classes=3", code=2)
    assert failure["error"] == "ConfigError" and "num_classes" in failure["message"]
    failure = cli.call("train", *config, code=2)
    assert failure["message"].startswith("label_map_path: expected the path of a label map, found none")
    # A folder that is no detector.
    words = ["--model", tmp_path, "--examples", examples, "--output", tmp_path / "out"]
    assert str(tmp_path) in cli.call("evaluate", *words, code=2)["message"]


def test_an_import_that_fails_says_one_thing_once_and_leaves_nothing(tmp_path, capsys):
    config = tmp_path / "pipeline.config"
    config.write_text(config_text().replace("batch_size:", "sync_replicas: true batch_size:"))
    (tmp_path / "label_map.pbtxt").write_text(LABELS)
    (tmp_path / "model.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(100))
    words = f"import --config {config} --checkpoint {tmp_path}/model.tflite --label-map"
    assert main([*words.split(), f"{tmp_path}/label_map.pbtxt", "--output", f"{tmp_path}/out/made"]) == 2
    error = capsys.readouterr().err
    assert "found a TensorFlow Lite file" in error and error.count("without effect here") == 1
    assert not (tmp_path / "out").exists()
