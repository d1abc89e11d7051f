"""A data set of each format, from `detflow init` to examples, and one to a published detector."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from benchmarks import first_things
from benchmarks.results import RESULTS
from component_specs import ExampleGenJob
from components.example_gen.run import run as generate
from detection_core.artifacts.dataset_card import CARD
from detection_core.datasets.readers import READERS
from detection_core.zoo.cache import CACHE_VARIABLE, MIRROR_VARIABLE
from detection_core.zoo.networks import find_network
from pipeline.dag import build_dag
from pipeline.settings.settings_file import load_settings
from tests.end_to_end.conftest import ROOT, SMALL, states
from tests.support import same_set
from tests.support.command_line import CommandLine, run_python
from tests.support.dataset_files import Coco
from tests.support.plain_backbone import PLAIN
from tests.support.same_set import WRITERS

COPIES = 8
LAYOUTS = {
    "voc as annotations": ("voc", {"annots": "annotations"}),
    "voc in one folder": ("voc", {"annots": "images"}),
}
CASES = {**{name: (name, {}) for name in WRITERS}, **LAYOUTS}


@pytest.fixture(autouse=True)
def no_network(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path / "mirror"))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A function that writes a data set in a format, its folders called otherwise."""

    def write(case):
        many = {f"{name}{n}": objects for n in range(COPIES) for name, objects in same_set.IMAGES.items()}
        monkeypatch.setattr(same_set, "IMAGES", many)
        data_format, folders = CASES[case]
        root = tmp_path / "a data set"
        WRITERS[data_format](root)
        for name, other in folders.items():
            (root / other).mkdir(exist_ok=True)
            for entry in os.listdir(root / name):
                (root / name / entry).rename(root / other / entry)
            (root / name).rmdir()
        return str(root)

    return write


PAGE = (ROOT / "docs" / "pose.md").read_text(encoding="utf-8")
SHORT_SHAPES = {
    "masks": (
        "model.faster_rcnn.image_resizer={fixed_shape_resizer {height: 64 width: 64}}",
        "model.faster_rcnn.initial_crop_size=4",
        "model.faster_rcnn.second_stage_batch_size=8",
        "model.faster_rcnn.first_stage_max_proposals=8",
        "train_config.validation=unset",
    ),
    "keypoints": (
        "model.center_net.image_resizer={fixed_shape_resizer {height: 64 width: 64}}",
        "quantize.overrides.train_config.num_steps=2",
        "export.max_map_drop=1.0",
    ),
}


def _shapes(root, finds):
    """A data set of cats with masks, and with keypoints if these are to be found."""
    data = Coco(root, images=30)
    data.annotate_shapes()
    data.categories = [{**entry, "id": 1} for entry in data.categories if entry["name"] == "cat"]
    for entry in data.annotations:
        entry["category_id"] = 1
        if finds == "masks":
            del entry["keypoints"]
    data.write()
    return next((root / "images").iterdir())


def _run(cli, finds, words):
    """Run a workflow of few steps; return its record and what its report says."""
    short = ("train_config.batch_size=2", "train.overrides.train_config.num_steps=4", "evaluate.pictures=2")
    thresholds = "evaluate.thresholds={}", "evaluate.quantized_thresholds={}"
    changes = (*short, *thresholds, *SHORT_SHAPES[finds])
    summary = cli.json(*words, *(f"--set={change}" for change in changes))
    assert set(states(summary).values()) == {"executed"} and summary["pushed"]["pushed"]
    return summary, Path(summary["places"]["report"]).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_masks_become_a_published_detector_that_finds_masks(tmp_path, capsys):
    photo, cli = _shapes(tmp_path / "photos", "masks"), CommandLine(capsys)
    said = cli.json("init", tmp_path / "photos", "-o", tmp_path / "mine", "--from-scratch")
    assert find_network(said["network"]).kind.finds == "masks"
    _, report = _run(cli, "masks", ("run", said["settings"]))
    assert "DetectionMasks_Precision/mAP" in report
    pushed = tmp_path / "mine" / "workspace" / "pushed"
    assert not (pushed / "tflite").exists()
    cli("predict", "--model", pushed, photo, "--output", tmp_path / "found", "--min-score", "0")
    found = json.loads((tmp_path / "found" / f"{photo.stem}.json").read_text(encoding="utf-8"))["detections"]
    assert found and all(each["mask"]["size"] == [30, 40] for each in found)


@pytest.mark.zoo
@pytest.mark.timeout(1500)
def test_the_page_on_poses_leads_from_annotations_to_a_file(tmp_path, capsys, monkeypatch):
    """Its commands as they are, but for a short training."""
    monkeypatch.chdir(tmp_path)
    photo, cli = _shapes(tmp_path / "photos", "keypoints"), CommandLine(capsys)
    shutil.copy(photo, "photo.jpg")
    version = ""
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.replace("VERSION", version))[1:]
            if words[0] == "run":
                summary, report = _run(cli, "keypoints", words)
                version = str(summary["pushed"]["version"])
                assert "Keypoints_Precision/mAP" in report
            elif words[0] != "pip":
                cli(*words)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    file = f"build/pose/workspace/pushed/tflite/{version}/model_float32.tflite"
    done = run_python(code.replace("score >= 0.5", "True"), file, "photo.jpg")
    objects = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert len(done.stdout.splitlines()) == 4 * len(objects) > 0


def test_there_is_a_case_for_every_format():
    assert set(CASES) >= set(READERS)


@pytest.mark.parametrize("case", CASES)
def test_a_data_set_of_any_format_becomes_examples_without_a_word(case, data, tmp_path, capsys):
    said = CommandLine(capsys).json("init", data(case), "-o", tmp_path / "mine")
    assert said["format"].startswith(CASES[case][0])
    assert (said["images"], said["images_without_objects"]) == (3 * COPIES, COPIES)
    assert (said["objects"], said["most_objects"]) == (3 * COPIES, 2)
    assert said["classes"] == {"dog": 2 * COPIES, "cat": COPIES}
    assert (said["rejected"], said["unreadable_images"]) == ({}, 0) and "samples.png" in said["files"]

    settings = load_settings(said["settings"])
    assert build_dag(settings)
    examples = tmp_path / "examples"
    names = ("splits", "quarantine_limit", "decode_images", "shard_examples")
    given = {name: getattr(settings.data, name) for name in names}
    places = {"data_path": settings.data.path, "data_format": settings.data.format}
    generate(ExampleGenJob(examples=str(examples), **places, **given))
    card = CARD.read(str(examples))
    assert (card.total.images, card.total.objects, card.quarantine.records) == (3 * COPIES, 3 * COPIES, 0)
    assert {c.name: c.objects for c in card.classes} == {"cat": COPIES, "dog": 2 * COPIES}
    counted = {name: split.images for name, split in card.splits.items()}
    assert said["splits"] == {name: counted[name] for name in settings.data.splits}
    assert all(split.objects for split in card.splits.values())


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_first_ten_things_work_as_their_page_has_them(data, tmp_path, capsys, monkeypatch):
    kept = json.loads((RESULTS / "first_things.json").read_text(encoding="utf-8"))
    columns = [(thing.to, f"`{thing.detflow}`") for thing in first_things.THINGS]
    assert [(row["to"], row["detflow"]) for row in kept["rows"]] == columns
    folder, cli, changes = tmp_path / "work", CommandLine(capsys), []
    folder.mkdir()
    monkeypatch.chdir(folder)
    first_things.lay_out(data("yolo"), ".", images=3, frames=4)
    short = [f"--set={change}" for change in SMALL[1:] if "batch_size" not in change]
    short.append(f"--set=model.ssd.feature_extractor.type={PLAIN}")

    def run(words):
        summary = cli.json(*words, *(short if words[0] == "run" else ["--runs=1"] * (words[0] == "bench")))
        if words[0] == "run":
            changes.append({name for name, state in states(summary).items() if state == "executed"})

    first_things.run_in_turn(".", run)
    first, again, other_files = changes
    assert "trainer" in first and not again
    assert {"tflite_exporter", "pusher"} < other_files and not {"trainer", "example_gen"} & other_files
    for name in ("tested", "tested_int8"):
        assert "DetectionBoxes_Precision/mAP" in (folder / name / "evaluation" / "metrics.json").read_text()
    assert (
        len(list((folder / "found").glob("*.json"))) == 3
        and (folder / "tracked" / "clip-detected.mp4").is_file()
    )
    assert any((folder / "labels").rglob("*.xml"))
