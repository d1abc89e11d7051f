"""The choice of images to label: ranking, tasks, what is left out, and what is resumed."""

import csv
import json
import os
import shutil
from xml.etree import ElementTree

import pytest
import tensorflow as tf
from PIL import Image

from detection_core import capabilities
from detection_core.artifacts.selection import SELECTION
from detection_core.datasets.formats import coco, cvat
from detection_core.errors import ConfigError, DataError
from detection_core.tasks.predict import PredictOptions
from detection_core.tasks.predicting.prediction_inputs import find_inputs
from detection_core.tasks.predicting.prediction_journal import open_journal
from detection_core.tasks.select_images import SelectOptions, select_images
from tests.support.blobs import BlobDetector, save_folder, scenes, write_examples
from tests.support.cases import refused


class UnsureOfGreen(BlobDetector):
    """Is sure of red squares, and does not know about green ones."""

    @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.uint8, name="input_tensor")])
    def serve(self, input_tensor):
        found = BlobDetector.serve.python_function(self, input_tensor)
        green = tf.cast(found["detection_classes"] == 2.0, tf.float32)
        scores = found["detection_scores"] * (1 - green * 0.4)
        return found | {"detection_scores": scores}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_folder(UnsureOfGreen(score=0.999), tmp_path_factory.mktemp("unsure"))


@pytest.fixture
def photos(tmp_path):
    """Scenes 0 to 11; odd ones have a green square or none, even ones a red square. One file is broken."""
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for number, (image, _) in enumerate(scenes(12)):
        Image.fromarray(image).save(folder / "more" / f"{number}.png")
    (folder / "broken.png").write_text("no image")
    return folder


def select(model, photos, out, examples="", **options):
    images = find_inputs([str(photos)], str(out))
    return select_images(model, images, str(out), examples, SelectOptions(**options))


def test_uncertain_images_that_differ_are_chosen_and_written_as_tasks(tmp_path, model, photos):
    shutil.copy(photos / "more" / "1.png", photos / "a copy.png")
    labelled = [*scenes(4, seed=1), scenes(12)[5]]
    write_examples(tmp_path / "examples", "train", labelled[:3])
    write_examples(tmp_path / "examples", "eval", labelled[3:])
    out = tmp_path / "out"
    found = select(model, photos, out, str(tmp_path / "examples"), number=2, min_score=0.5)
    assert SELECTION.read(str(out)) == found and found.labelled_images == 5
    # Two labels each; the class without more labels weighs no more.
    assert found.class_weights == {"red": 1.0, "green": 1.0}
    by_name = {os.path.basename(image.image): image for image in found.images}
    assert len(by_name) == 14 and found.images[-1].error.startswith("expected an image")
    assert [image.rank for image in found.images[:3]] == [1, 2, 0]
    assert {os.path.basename(image.image) for image in found.chosen} <= {"a copy.png", "1.png", "9.png"}
    assert all(image.reason == "green" and image.distance > 0 for image in found.chosen)
    # Scene 5 is labelled, and of two copies one is left out.
    assert by_name["5.png"].alike == "scene 5"
    copies = [by_name[name] for name in ("1.png", "a copy.png")]
    assert sum(bool(image.alike) for image in copies) == 1
    assert by_name["1.png"].uncertainty == pytest.approx(0.97130, abs=1e-4)
    assert by_name["0.png"].reason == "red" and by_name["3.png"].reason == ""

    paths = [image.image for image in found.chosen]
    assert (out / "selected.txt").read_text().splitlines() == paths
    rows = list(csv.DictReader((out / "selection.csv").open()))
    assert [row["image"] for row in rows] == [image.image for image in found.images]
    assert [row["rank"] for row in rows[:3]] == ["1", "2", "0"]
    names = [os.path.relpath(path, photos) for path in paths]
    root = ElementTree.parse(out / "cvat.xml").getroot()
    assert [image.get("name") for image in root.iter("image")] == names
    assert [box.get("label") for box in root.iter("box")] == ["green", "green"]
    tasks = json.loads((out / "label_studio.json").read_text())
    assert [task["data"]["image"].partition("?d=")[2] for task in tasks] == names
    assert {task["predictions"][0]["model_version"] for task in tasks} == {found.model}
    read = coco.read(str(photos), {"annotations": str(out / "annotations.json"), "images": str(photos)})
    assert [len(image.objects) for image in read.images] == [1, 1]


def test_a_rare_class_weighs_more_and_nothing_need_be_labelled(tmp_path, model, photos):
    greens = [scene for number, scene in enumerate(scenes(12)) if number % 2 and number % 4 != 3]
    write_examples(tmp_path / "examples", "train", [*greens, scenes(8, seed=2)[0]])
    found = select(model, photos, tmp_path / "out", str(tmp_path / "examples"), number=20)
    assert found.class_weights == {"red": 1.5, "green": 0.75}
    assert len(found.chosen) == 9  # all of the 12 but those that are labelled
    assert {image.alike for image in found.images if image.alike} == {"scene 1", "scene 5", "scene 9"}
    alone = select(model, photos, tmp_path / "alone", number=20)
    assert alone.labelled_images == 0 and len(alone.chosen) == 12
    # The most uncertain one comes first, as it has nothing to differ from.
    first = alone.chosen[0]
    assert first.distance is None and first.uncertainty == max(i.uncertainty for i in alone.images)


def test_of_a_folder_that_is_labelled_nothing_is_chosen(tmp_path, model, photos):
    write_examples(tmp_path / "examples", "train", scenes(12))
    found = select(model, photos, tmp_path / "out", str(tmp_path / "examples"))
    assert found.chosen == [] and sum(bool(image.alike) for image in found.images) == 12
    assert (tmp_path / "out" / "selected.txt").read_text() == ""
    assert json.loads((tmp_path / "out" / "label_studio.json").read_text()) == []


def test_low_scores_are_no_pre_annotations(tmp_path, model, photos):
    select(model, photos, tmp_path / "out", number=20, min_score=0.9)
    read = cvat.read(str(photos), {"annotations": str(tmp_path / "out" / "cvat.xml"), "images": str(photos)})
    assert {item.name for image in read.images for item in image.objects} == {"red"}


def test_without_the_capability_and_of_flat_pictures_only_equal_files_are_left_out(
    tmp_path, model, photos, monkeypatch
):
    shutil.copy(photos / "more" / "1.png", photos / "copy.png")
    Image.open(photos / "copy.png").save(photos / "smaller.jpg", quality=90)
    for name, level in (("flat.png", 90), ("flat copy.png", 90), ("flat other.png", 91)):
        Image.new("RGB", (64, 64), (level,) * 3).save(photos / name)
    found = select(model, photos, tmp_path / "out", number=20)
    alike = {os.path.basename(image.image) for image in found.images if image.alike}
    assert len(found.chosen) == 14 and len(alike & {"1.png", "copy.png", "smaller.jpg"}) == 2
    assert len(alike & {"flat.png", "flat copy.png"}) == 1 and "flat other.png" not in alike
    monkeypatch.delitem(capabilities.CAPABILITIES, "near_duplicates")
    found = select(model, photos, tmp_path / "without", number=20)
    assert len(found.chosen) == 15
    # The distance from the image that it was made of tells.
    [smaller] = [image for image in found.chosen if image.image.endswith("smaller.jpg")]
    assert smaller.rank > 3 and smaller.distance < 0.02


def test_an_interrupted_run_is_resumed(tmp_path, model, photos):
    images = find_inputs([str(photos / "more")], "")
    with pytest.raises(KeyboardInterrupt), open_journal(str(tmp_path / "out"), "key") as journal:
        options = SelectOptions(number=2, prediction=PredictOptions(journal=journal))
        select_images(model, dict(list(images.items())[:5]), str(tmp_path / "out"), options=options)
        raise KeyboardInterrupt
    assert len(journal.stems) == 5
    with open_journal(str(tmp_path / "out"), "key") as journal:
        assert len(journal.stems) == 5
        options = SelectOptions(number=2, prediction=PredictOptions(journal=journal))
        found = select_images(model, images, str(tmp_path / "out"), options=options)
    assert found == select(model, photos / "more", tmp_path / "other", number=2)


def test_what_cannot_be_used_is_refused(tmp_path, model, photos):
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "a.png").write_text("no image")
    refused(DataError, "expected an image", select, model, tmp_path / "none", tmp_path / "out")
    (photos / "broken.png").unlink()
    images = find_inputs([str(photos)], "")
    refused(ConfigError, "expected another folder", select_images, model, images, str(photos / "more"))
