"""The public face: a dozen lines on plain records, and what it costs to import."""

import ast
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import detection_core
from tests.docs.reference import example_code
from tests.support.cases import refused
from tests.support.plain_backbone import PLAIN as BACKBONE
from tests.support.tiny_training import config_text, write_examples

PLAIN = """
train_input_reader {{
  label_map_path: "{folder}/label_map.pbtxt"
  tf_record_input_reader {{ input_path: "{folder}/Split-train/examples-00000-of-00001.tfrecord" }}
}}
eval_input_reader {{
  label_map_path: "{folder}/label_map.pbtxt" num_epochs: 1
  tf_record_input_reader {{ input_path: "{folder}/Split-train/examples-00000-of-00001.tfrecord" }}
}}
graph_rewriter {{ quantization {{ delay: 0 }} }}
"""
VERBS = ("load_config", "build_detector", "train", "evaluate", "quantize", "export", "predict")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="module")
def config_path(root):
    """A pipeline.config of the field: it names records and a label map that no ExampleGen wrote."""
    records = write_examples(root / "records")
    (root / "pipeline.config").write_text(config_text(4, BACKBONE) + PLAIN.format(folder=records))
    return root / "pipeline.config"


@pytest.fixture(scope="module")
def trained(root, config_path):
    return detection_core.train(config_path, output=root / "trained")


def run_python(code, **environment):
    command, given = [sys.executable, "-c", code], os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, check=True, env=given).stdout.split()


def test_the_import_and_the_check_of_a_config_cost_no_tensorflow(tmp_path):
    added = run_python(
        "import sys; before = set(sys.modules); import detection_core\n"
        "print(*sorted(name for name in set(sys.modules) - before))"
    )
    assert "detection_core.api" not in added
    assert not {"tensorflow", "numpy", "google", "dataclasses"} & {name.partition(".")[0] for name in added}
    (tmp_path / "pipeline.config").write_text(config_text() + PLAIN.format(folder=tmp_path))
    code = (
        "import os, sys; from detection_core import ConfigError, load_config\n"
        "load_config(os.environ['CONFIG']); print('tensorflow' in sys.modules)"
    )
    assert run_python(code, CONFIG=str(tmp_path / "pipeline.config")) == ["False"]


def test_every_public_name_is_there_typed_and_not_hidden_by_a_module():
    tree = ast.parse(Path(detection_core.__file__).read_text(encoding="utf-8"))
    blocks = [block for block in tree.body if isinstance(block, ast.If)]
    assert [ast.unparse(block.test) for block in blocks] == ["TYPE_CHECKING"]
    typed = {alias.name: node.module for node in blocks[0].body for alias in node.names}
    assert sorted(typed) == sorted(detection_core.__all__)
    for name, module in typed.items():
        found = getattr(detection_core, name)
        assert found is getattr(sys.modules[module], name)
    assert detection_core.__all__[: len(VERBS)] == list(VERBS)
    assert set(detection_core.__all__) <= set(dir(detection_core))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        detection_core.no_such_name  # noqa: B018
    # Importing `detection_core.export` would put the module where the function is.
    modules = {module.name for module in pkgutil.iter_modules(detection_core.__path__)}
    assert modules & set(detection_core.__all__) == set()


def test_overrides_are_applied_and_contradictions_refused(config_path, tmp_path):
    config = detection_core.load_config(config_path, {"train_config.num_steps": 7})
    assert config.train_config.num_steps == 7
    with pytest.raises(detection_core.ConfigError, match="batch_size"):
        detection_core.load_config(config_path, {"train_config.batch_size": 0})
    options = detection_core.TFLiteExportOptions(max_map_drop=0.02)
    for verb, given in ((detection_core.quantize, {}), (detection_core.export, {"options": options})):
        refused(detection_core.ContractError, str(tmp_path), verb, tmp_path, output=tmp_path / "out", **given)
    refused(TypeError, "max_map_drop", detection_core.TFLiteExportOptions)
    refused(TypeError, "options", detection_core.export, tmp_path, output=tmp_path / "out")


def test_a_training_of_plain_records_and_a_detector_of_a_config_and_of_a_folder(config_path, trained, root):
    config = detection_core.load_config(config_path)
    built, again = (detection_core.build_detector(given) for given in (config_path, config))
    assert isinstance(built, detection_core.Detector)
    loaded = detection_core.build_detector(trained)
    assert built.num_classes == loaded.num_classes == 2
    first, same, later = (detector.network.get_weights() for detector in (built, again, loaded))
    assert all(np.array_equal(*pair) for pair in zip(first, same, strict=True))
    assert not all(np.array_equal(*pair) for pair in zip(first, later, strict=True))
    assert isinstance(trained, detection_core.TrainedDetector)
    assert trained.report.steps == 4
    assert os.fspath(trained) == trained.model == str(root / "trained" / "model")
    assert json.loads((root / "trained" / "model_run" / "train_report.json").read_text())["steps"] == 4


def test_an_evaluation_by_the_config_of_the_detector_or_of_a_folder_and_a_prediction(trained, root, tmp_path):
    before = sorted(path.name for path in root.iterdir())
    report = detection_core.evaluate(trained)
    assert isinstance(report, detection_core.EvalReport)
    assert report.images == 6 and "DetectionBoxes_Precision/mAP" in report.metrics
    assert sorted(path.name for path in root.iterdir()) == before
    bounds = {"DetectionBoxes_Precision/mAP": {"lower_bound": 2.0}}
    options = detection_core.EvaluateOptions(split="train", pictures=1, thresholds=bounds)
    report = detection_core.evaluate(trained, examples=root / "records", output=tmp_path, options=options)
    assert not report.blessed
    assert json.loads((tmp_path / "metrics.json").read_text())["split"] == "train"
    with pytest.raises(detection_core.DataError, match="Split-eval"):
        detection_core.evaluate(trained, examples=root / "records")
    pixels = np.full((48, 64, 3), 120, np.uint8)
    (prediction,) = detection_core.predict(trained, [pixels], min_score=0.0)
    assert (prediction.height, prediction.width, prediction.picture) == (48, 64, "")
    found = prediction.detections[0]
    assert isinstance(found, detection_core.DetectedObject) and found.name in ("dark", "bright")


@pytest.mark.slow
def test_the_example_of_the_package(tmp_path, monkeypatch, config_path):
    folder = tmp_path
    shutil.copytree(config_path.parent / "records", folder / "build" / "examples")
    shutil.copytree(folder / "build/examples/Split-train", folder / "build/examples/Split-eval")
    shutil.copy(config_path, folder)
    Image.fromarray(np.full((48, 64, 3), 120, np.uint8)).save(folder / "photo.jpg")
    code = example_code(detection_core.__doc__)
    assert code.count("2000") == 1
    monkeypatch.chdir(folder)
    names: dict = {"folder": folder}
    exec(code.replace("2000", "3"), names)
    example = SimpleNamespace(**names)
    assert (example.trained.report.steps, example.quantized.report.steps) == (3, 3)
    assert os.fspath(example.quantized) == example.quantized.model
    assert isinstance(detection_core.build_detector(example.quantized), detection_core.Detector)

    assert sorted(example.exported.files) == ["float32", "int8"]
    assert Path(example.exported.labels).read_text() == "dark\nbright\n"
    report = example.exported.report
    assert [file.quantization for file in report.files] == ["none", "none", "aware", "aware"]
    assert report.split == "eval" and report.images == 6
    with pytest.raises(detection_core.ConfigError, match=r"int8\.tflite: expected records and a label map"):
        detection_core.evaluate(example.exported.files["int8"])
    assert detection_core.evaluate(example.exported.files["int8"], config=config_path).images == 6

    assert isinstance(example.prediction, detection_core.Prediction)
    assert example.prediction.image == "photo.jpg"
    assert Path(example.prediction.picture).stat().st_size > 0


@pytest.mark.slow
def test_files_are_exported_from_plain_records(trained, root):
    options = detection_core.TFLiteExportOptions(formats=("int8",), latency_runs=0, max_map_drop=1.0)
    exported = detection_core.export(trained, output=root / "exported", options=options)
    assert list(exported.files) == ["int8"] and exported.report.blessed
    assert exported.report.files[0].quantization == "post_training"
