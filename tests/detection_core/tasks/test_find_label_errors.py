"""Label errors of examples: the ranking, the page with pictures, the tasks, and cross-validation."""

import dataclasses
import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from detection_core.artifacts.label_errors import LABEL_ERRORS
from detection_core.config.input_paths import point_at_other_folds
from detection_core.config.load import load_config
from detection_core.datasets.formats import cvat
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.label_scores import LabelErrorOptions
from detection_core.storage import files
from detection_core.tasks import cross_validation
from detection_core.tasks.cross_validation import fold_splits
from detection_core.tasks.find_label_errors import LabelSearch, find_label_errors
from tests.support.blobs import BlobDetector, save_folder, scenes, write_examples
from tests.support.cases import refused

CONFIG = str(Path(__file__).parents[3] / "examples" / "digits" / "pipeline.config")


def wrong_scenes():
    """Scenes of which 0 has no label, 1 one that is moved, and 2 one of the other class."""
    made = scenes(8)
    truths = [truth for _, truth in made]
    truths[0] = truths[0].take(np.zeros(1, bool))
    truths[1] = dataclasses.replace(truths[1], boxes=truths[1].boxes - np.float32(0.08))
    truths[2] = dataclasses.replace(truths[2], classes=1 - truths[2].classes)
    return [(image, truth) for (image, _), truth in zip(made, truths, strict=True)]


@pytest.fixture
def examples(tmp_path):
    write_examples(tmp_path / "examples", "eval", wrong_scenes())
    write_examples(tmp_path / "examples", "train", scenes(3, seed=1))
    (tmp_path / "examples" / "dataset_card.json").unlink()
    return str(tmp_path / "examples")


def test_errors_are_ranked_drawn_and_written_as_tasks(tmp_path, examples):
    out = tmp_path / "out"
    search = LabelSearch(model_path=save_folder(BlobDetector(), tmp_path / "model"), below=0.7, title="blobs")
    found = find_label_errors(examples, str(out), search)
    errors = [(error.kind, error.source_id, error.label, error.detected) for error in found.errors]
    assert sorted(errors) == [
        ("badly_located", "scene 1", "green", "green"),
        ("overlooked", "scene 0", "", "red"),
        ("overlooked", "scene 1", "", "green"),
        ("overlooked", "scene 2", "", "red"),
        ("swapped", "scene 2", "green", "red"),
    ]
    assert LABEL_ERRORS.read(str(out)) == found and found.folds == 0
    # The detector may have seen the images of `train`.
    assert {image.split for image in found.images} == {"eval"}
    assert {image.source_id for image in found.images[:3]} == {"scene 0", "scene 1", "scene 2"}
    page = (out / "index.html").read_text()
    assert "swapped labels" in page and "labelled green, detected red 0.90" in page
    assert all((out / "pictures" / f"00{n}.jpg").read_bytes().startswith(b"\xff\xd8") for n in range(4))
    drawn = np.asarray(Image.open(out / "pictures" / "000.jpg"), np.int16)
    assert (np.abs(drawn - [255, 0, 255]).max(axis=2) < 60).sum() > 100
    # The tasks have the labels, and the missing one.
    root = ElementTree.parse(out / "cvat.xml").getroot()
    boxes = {image.get("name"): image.findall("box") for image in root.iter("image")}
    assert set(boxes) == {"scene 0", "scene 1", "scene 2"}
    notes = {name: [b.findtext("attribute[@name='note']") for b in some] for name, some in boxes.items()}
    assert notes["scene 1"][0].startswith("badly located 0.") and notes["scene 0"][0].startswith("overlooked")
    assert [b.get("label") for some in boxes.values() for b in some] == ["red", "green", "green"]
    assert {a.get("name") or a.findtext("name") for a in root.iter("attribute")} == {"score", "note"}
    assert [b.get("source") for b in boxes["scene 0"] + boxes["scene 1"]] == ["auto", "manual"]
    tasks = json.loads((out / "label_studio.json").read_text())
    regions = {task["data"]["image"][-7:]: task["predictions"][0]["result"] for task in tasks}
    assert regions["scene 1"][0]["meta"]["text"] == notes["scene 1"][:1]
    assert regions["scene 2"][0]["meta"]["text"][0].startswith("swapped")
    assert [region[0].get("score") is None for region in regions.values()].count(True) == 2
    shutil.copytree(out, tmp_path / "tasks")
    assert len(list(cvat.read(str(tmp_path / "tasks"), None).images)) == 3


def test_detections_of_any_program_are_taken_and_useless_input_is_refused(tmp_path, examples):
    results = tmp_path / "results.json"
    entry = {"image_id": "scene 5", "category_id": 1, "bbox": [1, 1, 20, 20], "score": 0.99}
    results.write_text(json.dumps([entry]))
    search = LabelSearch(model_path=str(results), options=LabelErrorOptions(low_score=0.5, high_score=0.95))
    found = find_label_errors(examples, str(tmp_path / "out"), search)
    assert [(error.kind, error.source_id, error.detected) for error in found.errors][:1] == [
        ("overlooked", "scene 5", "red")
    ]
    assert {image.split for image in found.images} == {"train", "eval"}
    results.write_text(json.dumps([entry | {"image_id": "other"}]))
    refused(DataError, "compare the image_id", find_label_errors, examples, str(tmp_path / "no"), search)
    for given, message in (
        (dataclasses.replace(search, splits=["test"]), "expected one of train, eval, found 'test'"),
        (LabelSearch(), "expected a model, detections or a config"),
    ):
        refused(ConfigError, message, find_label_errors, examples, str(tmp_path / "no"), given)


def test_each_fold_is_detected_by_a_detector_that_has_not_seen_it(tmp_path, monkeypatch):
    examples = tmp_path / "examples"
    made = wrong_scenes()
    for number in range(2):
        write_examples(examples, f"fold-{number + 1}", made[number::2])
    (examples / "dataset_card.json").unlink()
    trained = []

    def train(config, *, model_dir, model_run_dir, work_dir):
        trained.append((list(config.train_input_reader.tf_record_input_reader.input_path), work_dir))
        save_folder(BlobDetector(), Path(model_dir))

    monkeypatch.setattr(cross_validation, "train", train)
    search = LabelSearch(config=load_config(CONFIG), work_dir=str(tmp_path / "work"), below=0.7)
    found = find_label_errors(str(examples), str(tmp_path / "out"), search)
    assert found.folds == 2 and len(found.images) == 8 and len(found.errors) == 5
    assert [(error.split, error.record) for error in found.errors if error.kind == "swapped"] == [
        ("fold-1", 1)
    ]
    for number, (patterns, work) in enumerate(trained, start=1):
        assert patterns == [files.join(str(examples), f"Split-fold-{3 - number}", "*.tfrecord*")]
        assert work == str(tmp_path / "work" / f"fold-{number}" / "work")


def test_folds_are_equal_and_choose_no_weights(tmp_path):
    assert fold_splits(4) == dict.fromkeys(("fold-1", "fold-2", "fold-3", "fold-4"), 0.25)
    refused(ConfigError, "expected two folds or more, found 1", fold_splits, 1)
    config = load_config(CONFIG, {"train_config.validation.every_steps": 5})
    own = point_at_other_folds(config, str(tmp_path), "fold-2", list(fold_splits(3)))
    assert not own.train_config.HasField("validation") and config.train_config.HasField("validation")
    read = own.train_input_reader.tf_record_input_reader.input_path
    assert [path.split("/")[-2] for path in read] == ["Split-fold-1", "Split-fold-3"]
    assert "Split-fold-2" in own.eval_input_reader[0].tf_record_input_reader.input_path[0]
