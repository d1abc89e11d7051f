"""Each recipe of CONTRIBUTING.md, followed from outside of the packages and used end to end."""

import contextlib
import dataclasses
import importlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tensorflow as tf
import yaml
from PIL import Image

import detection_core
from component_specs import ExampleGenJob
from components.example_gen.run import run as ingest
from detection_core.builders.augment import build_augmentation
from detection_core.builders.backbones import BACKBONES
from detection_core.config.messages.extractors import REGISTERED
from detection_core.config.messages.registered import PARTS
from detection_core.config.metric_names import REGISTERED_SETS
from detection_core.data.records import read_records
from detection_core.datasets.readers import READERS
from detection_core.detectors.family import FAMILIES
from detection_core.structures import GroundTruth, Sample
from pipeline.cli import parser
from pipeline.settings.settings_file import load_settings
from tests.pipeline.golden import SETTINGS
from tests.support.blobs import BlobDetector, save_folder, scenes
from tests.support.blobs import write_examples as write_blob_examples
from tests.support.compiled import with_short_stack
from tests.support.plain_backbone import PLAIN
from tests.support.registrations import forget_component, forget_step
from tests.support.tiny_training import MOBILENET, config_text, write_examples

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
_SECTION = re.compile(r"^### (.+?)\n(.*?)(?=^##)", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^`([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r"^\| \[(.+?)\]\(#[\w-]+\) \| (\d+) \|", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A recipe, its files written to a folder from which they can be imported."""

    folder: Path
    files: dict[str, str]  # name to content

    def path(self, name: str) -> str:
        """Return where a file is."""
        return str(self.folder / name)

    def load(self, name: str) -> ModuleType:
        """Import a module of the recipe."""
        return importlib.import_module(name)


def files_of(title: str) -> dict[str, str]:
    """Return the files of a recipe: below its heading of the third level, up to the next heading."""
    sections = _SECTION.findall(PAGE.read_text(encoding="utf-8"))
    return dict(_FILE.findall({heading.lower(): text for heading, text in sections}[title]))


def counts() -> dict[str, int]:
    """Return how many files of one's own the table says that each recipe takes."""
    return {title: int(count) for title, count in _ROW.findall(PAGE.read_text(encoding="utf-8"))}


@contextlib.contextmanager
def recipe(title: str, folder: Path) -> Iterator[Recipe]:
    """Write a recipe's files to a folder and let them be imported while the caller needs them."""
    files = files_of(title)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    modules = [Path(name).stem for name in files if name.endswith(".py")]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield Recipe(folder, files)
    finally:
        sys.path.remove(str(folder))
        for module in modules:
            sys.modules.pop(module, None)


@contextlib.contextmanager
def registered(title: str, folder: Path, module: str, *forget: Callable[[], None]) -> Iterator[Recipe]:
    """Write a recipe's files and register their part; then call what takes it back."""
    with recipe(title, folder) as found:
        found.load(module).register()
        try:
            yield found
        finally:
            for take_back in forget:
                take_back()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A pipeline.config of two updates that names its records."""
    folder = tmp_path_factory.mktemp("tiny")
    examples = write_examples(folder / "examples")
    records = f'tf_record_input_reader {{ input_path: "{examples}/Split-train/*.tfrecord" }}'
    reader = f'{{ label_map_path: "{examples}/label_map.pbtxt" {records} }}'
    text = f"{config_text(2, PLAIN)}\ntrain_input_reader {reader}\neval_input_reader {reader}\n"
    (folder / "pipeline.config").write_text(text)
    return str(folder / "pipeline.config")


def run_in(folder, words):
    """Run a module in a process that can import from this folder."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    command = [sys.executable, "-m", *words.split()]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def loaded(tiny, recipe, name, overrides=()):
    return detection_core.load_config(tiny, overrides, override_files=[recipe.path(name)])


def test_the_table_counts_the_files():
    parts = {"a loss", "a backbone", "an augmentation", "an input format", "a metric", "a family"}
    assert set(counts()) == parts | {"a component"}
    for title, count in counts().items():
        modules = [name for name in files_of(title) if name.endswith(".py")]
        assert len(modules) == count <= 3, title


@pytest.fixture
def poly(tmp_path):
    forget = lambda: PARTS.pop(("classification_loss", "poly"), None)  # noqa: E731
    with registered("a loss", tmp_path, "poly_loss", forget) as found:
        yield found


def test_a_loss_is_what_its_paper_says_and_refuses_an_option_out_of_range(poly, tiny):
    logits, target = np.array([[[-2.0, 0.5, 3.0]]]), np.array([[[0.0, 1.0, 1.0]]])
    given = (tf.constant(value, tf.float32) for value in (logits, target, np.full((1, 1, 1), 0.5)))
    found = poly.load("poly_loss").PolyLoss(epsilon=2.0)(*given)
    for k in range(3):
        right = 1 / (1 + math.exp(-logits[0, 0, k]))
        right = right if target[0, 0, k] else 1 - right
        expected = 0.5 * (-math.log(right) + 2.0 * (1 - right))
        assert float(found[0, 0, k]) == pytest.approx(expected, rel=1e-5)
    path = "model.ssd.loss.classification_loss.registered.options[epsilon]"
    with pytest.raises(detection_core.ConfigError, match="a number above 0, found 0"):
        loaded(tiny, poly, "poly.config", {path: "0"})


@pytest.mark.slow
def test_a_loss_trains(poly, tiny, tmp_path):
    config = loaded(tiny, poly, "poly.config", {"train_config.num_steps": 1})
    losses = []
    for epsilon in ("2.0", "4.0"):
        config.model.ssd.loss.classification_loss.registered.options["epsilon"] = epsilon
        report = detection_core.train(config, output=tmp_path / epsilon, log_every=1).report
        losses.append(report.losses["Loss/classification_loss"])
    assert 0 < losses[0] < losses[1]


@pytest.mark.slow
def test_a_backbone_trains_and_is_loaded_again(tiny, tmp_path):
    forget = (lambda: BACKBONES.pop("plain", None), lambda: REGISTERED.pop("ssd_plain_fpn", None))
    with registered("a backbone", tmp_path, "plain_backbone", *forget) as plain:
        config = loaded(tiny, plain, "plain.config")
        trained = detection_core.train(config, output=tmp_path / "trained")
        detector = detection_core.build_detector(trained)
        names = {layer.name for network in detector.networks.values() for layer in network.layers}
        assert {f"backbone_conv_{level}" for level in range(1, 6)} <= names
        assert not any("expanded" in name for name in names)


@pytest.fixture
def solarize(tmp_path):
    forget = lambda: PARTS.pop(("augmentation", "solarize"), None)  # noqa: E731
    with registered("an augmentation", tmp_path, "solarize", forget) as found:
        yield found


def test_an_augmentation_of_a_config_changes_a_sample(solarize, tiny):
    config = loaded(tiny, solarize, "solarize.config")
    step = build_augmentation(config.train_config.data_augmentation_options[1])
    pixels = np.array([[[0, 127, 128]], [[200, 255, 10]]], np.uint8)
    truth = GroundTruth(*(tf.zeros([0]) for _ in GroundTruth._fields))
    sample = Sample(image=tf.constant(pixels), truth=truth, source_id=tf.constant("1"))
    changed = step(sample, tf.constant([1, 2], tf.int64))
    np.testing.assert_array_equal(changed.image, [[[0, 127, 127]], [[55, 0, 10]]])


@pytest.mark.slow
def test_an_augmentation_trains(solarize, tiny, tmp_path):
    report = detection_core.train(loaded(tiny, solarize, "solarize.config"), output=tmp_path / "t").report
    assert report.steps == 2 and math.isfinite(report.loss)


def test_an_input_format_is_ingested(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    lines = ["image,xmin,ymin,xmax,ymax,class"]
    for number in range(8):
        Image.new("RGB", (40, 30), (number, 0, 0)).save(data / f"{number}.png")
        lines.append(f"{number}.png,4,3,20,27,cat")
    lines += ["0.png,1,1,5,x,cat", "1.png,1,1,9,9,dog"]
    (data / "boxes.csv").write_text("\n".join(lines))
    forget = lambda: READERS.pop("csv_boxes", None)  # noqa: E731
    with registered("an input format", tmp_path, "csv_boxes", forget) as csv_boxes:
        text = csv_boxes.files["csv.yaml"].replace("PATH", str(data))
        text += f"name: csv\nmodel: {{config: {ROOT}/examples/digits/pipeline.config}}\nworkspace: w\n"
        (tmp_path / "settings.yaml").write_text(text)
        source = load_settings(str(tmp_path / "settings.yaml"), check_files=False).data
        given = {"data_path": source.path, "data_format": source.format, "splits": dict(source.splits)}
        card = ingest(ExampleGenJob(examples=str(tmp_path / "examples"), quarantine_limit=0.5, **given))
    assert card["total"]["images"] == 8 and card["total"]["objects"] == 9
    assert card["quarantine"]["reasons"] == {"malformed_annotation": 1}
    rows = (tmp_path / "examples" / "quarantine.jsonl").read_text().splitlines()
    assert json.loads(rows[0])["record"] == "line 10"
    records = [
        tf.train.Example.FromString(record)
        for path in (tmp_path / "examples").glob("Split-*/*.tfrecord")
        for record in read_records(str(path)).as_numpy_iterator()
    ]
    found = {r.features.feature["image/filename"].bytes_list.value[0]: r.features.feature for r in records}
    assert found[b"2.png"]["image/object/bbox/xmax"].float_list.value == [0.5]


def test_a_metric_is_measured_and_gates(tmp_path):
    write_blob_examples(tmp_path / "examples", "eval", scenes(4))
    forget = lambda: REGISTERED_SETS.pop("coverage_metrics", None)  # noqa: E731
    with registered("a metric", tmp_path, "image_coverage", forget) as coverage:
        config = coverage.files["coverage.config"]
        model = save_folder(BlobDetector(), tmp_path / "model", config=config)
        options = detection_core.EvaluateOptions(thresholds={"Coverage_Images@0.5": {"lower_bound": 1.1}})
        report = detection_core.evaluate(model, examples=tmp_path / "examples", options=options)
    expected = np.mean([len(truth.boxes) > 0 for _, truth in scenes(4)])
    assert report.metrics["Coverage_Images@0.5"] == expected > 0
    assert not report.blessed


@pytest.mark.slow
def test_a_family_trains_is_measured_and_predicts(tiny, tmp_path):
    size = "model.experimental_model.options[size]"
    with recipe("a family", tmp_path) as one_box:
        with pytest.raises(detection_core.ConfigError, match="no family of that name"):
            loaded(tiny, one_box, "one_box.config")
        one_box.load("one_box").register()
        try:
            with pytest.raises(detection_core.ConfigError, match="from 1 to 16,384, found 0"):
                loaded(tiny, one_box, "one_box.config", {size: "0"})
            config = loaded(tiny, one_box, "one_box.config")
            trained = detection_core.train(config, output=tmp_path / "trained", log_every=1)
            assert set(trained.report.losses) >= {"Loss/box", "Loss/class"}
            detector = detection_core.build_detector(trained)
            assert type(detector).__name__ == "OneBox" and detector.input_shape.size == (96, 96)
            assert detection_core.evaluate(trained).images == 6
            image = np.full((30, 40, 3), 99, np.uint8)
            (prediction,) = detection_core.predict(trained, [image], min_score=0.0)
            assert len(prediction.detections) == 1
            with pytest.raises(detection_core.ExportError, match="one_box"):
                options = detection_core.TFLiteExportOptions(max_map_drop=0.02)
                detection_core.export(trained, output=tmp_path / "exported", options=options)
        finally:
            FAMILIES.pop("one_box", None)


def test_a_component_is_compiled_beside_ours_and_runs(tmp_path, request):
    from kfp import compiler

    with recipe("a component", tmp_path) as graded:
        request.addfinalizer(lambda: forget_component("grader"))
        pipeline = graded.load("graded_pipeline").graded
        with_short_stack(compiler.Compiler().compile, pipeline, str(tmp_path / "graded.yaml"))
    package = next(yaml.safe_load_all((tmp_path / "graded.yaml").read_text()))
    executors = package["deploymentSpec"]["executors"]
    assert executors["exec-grader"]["container"]["command"] == ["python", "-m", "grader"]
    assert executors["exec-evaluator"]["container"]["command"] == ["python", "-m", "components.evaluator"]
    tasks = package["root"]["dag"]["tasks"]
    assert tasks["grader"]["inputs"]["parameters"]["largest"]["runtimeValue"]["constant"] == 1_000_000
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"x" * 100)
    assert run_in(tmp_path, "grader --model model --evaluation grade --largest 100").returncode == 0
    assert (tmp_path / "grade" / "grade.txt").read_text() == "failed"


def test_a_component_is_a_step_of_a_workflow_in_a_compiled_package(tmp_path):
    from pipeline.kubeflow.kfp_backend import render_pipeline

    image = ["kubeflow.steps.grader.image=registry/grader:1.0"]
    with pytest.raises(detection_core.ConfigError, match=r"kubeflow.steps.grader: expected one of"):
        load_settings(str(SETTINGS), image, check_files=False)
    forget = (lambda: forget_step("grader"), lambda: forget_component("grader"))
    with registered("a component", tmp_path, "grader_step", *forget):
        settings = load_settings(str(SETTINGS), image, check_files=False)
        package = with_short_stack(render_pipeline, settings)
    compiled = next(yaml.safe_load_all(package))
    tasks = compiled["root"]["dag"]["tasks"]
    assert tasks["grader"]["inputs"]["artifacts"]["model"]["taskOutputArtifact"]["producerTask"] == "trainer"
    assert "grader" in tasks["pusher"]["dependentTasks"]
    container = compiled["deploymentSpec"]["executors"]["exec-grader"]["container"]
    assert container["image"] == "registry/grader:1.0"
    assert container["command"] == ["python", "-m", "grader"]


def test_an_installed_package_is_known_to_the_command_line(tiny, tmp_path, capsys):
    """Its metadata name what registers its parts; without it the same config is refused."""
    config = tmp_path / "pipeline.config"
    config.write_text(Path(tiny).read_text().replace(PLAIN, MOBILENET))  # other processes know no other one
    with recipe("a loss", tmp_path) as poly:
        validate = f"validate {config} --override-file {poly.path('poly.config')}"
        assert parser.main(validate.split()) == 2
        assert "expected a registered classification_loss" in capsys.readouterr().err
        metadata = tmp_path / "poly_parts-1.2.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: poly-parts\nVersion: 1.2\n")
        (metadata / "entry_points.txt").write_text("[detflow.extensions]\npoly = poly_loss:register\n")
        done = run_in(tmp_path, f"pipeline.cli {validate}")
    assert done.returncode == 0, done.stderr
