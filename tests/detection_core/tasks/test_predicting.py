"""Parts of the prediction: inputs, names of results, journal of an interrupted run, model's version."""

import io
import json
import os
import shutil
from typing import get_args

import pytest

from detection_core.allowed_values import PredictionFormat
from detection_core.artifacts.prediction import PREDICTIONS, DetectedObject, MaskRuns, Prediction
from detection_core.datasets.annotation_writers import WRITERS
from detection_core.datasets.readers import READERS
from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.tasks.predicting.prediction_inputs import find_inputs, unique_stems
from detection_core.tasks.predicting.prediction_journal import NAME, open_journal
from detection_core.tasks.predicting.prediction_outputs import describe_model, write_formats
from tests.support.blobs import BlobDetector, save_folder
from tests.support.cases import refused
from tests.support.object_store import s3_server

TREE = ("b.PNG", "a/x.jpg", "a/deep/x.jpg", "a/v.mp4", "a/notes.md", ".hidden/x.jpg", "out/b.jpg")


@pytest.fixture
def photos(tmp_path):
    for name in TREE:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return str(tmp_path / "photos")


def test_a_folder_is_all_below_it_except_earlier_results(photos):
    names = ["a/deep/x.jpg", "a/v.mp4", "a/x.jpg", "b.PNG"]
    assert find_inputs([photos], f"{photos}/out") == {f"{photos}/{name}": name for name in names}
    assert len(find_inputs([photos], f"{photos}-out")) == len(names) + 1
    assert len(find_inputs([photos, f"{photos}/a"], f"{photos}/out")) == len(names)
    for empty in ("none", "none/*.jpg"):
        os.makedirs(f"{photos}/none", exist_ok=True)
        refused(DataError, "expected images or videos, found none", find_inputs, [f"{photos}/{empty}"], "")


def test_patterns_lists_and_standard_input_name_files_and_folders(photos, tmp_path, monkeypatch):
    one, other, video = (f"{photos}/a/{name}" for name in ("x.jpg", "deep/x.jpg", "v.mp4"))
    assert sorted(find_inputs([f"{photos}/**/x.jpg"], "")) == sorted([one, other])
    assert list(find_inputs([f"{photos}/a*"], "")) == [other, video, one]
    assert list(find_inputs([f"{photos}/a/*"], "")) == [other, video, one]
    (tmp_path / "list.txt").write_text(f"{one}\n\n  {photos}/a/deep\r\n{photos}/b.*\n")
    expected = {one: "x.jpg", other: "x.jpg", f"{photos}/b.PNG": "b.PNG"}
    assert find_inputs([str(tmp_path / "list.txt")], "") == expected
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{one}\n{video}\n"))
    assert list(find_inputs(["-"], "")) == [one, video]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    refused(DataError, "-: expected a list of images and videos", find_inputs, ["-"], "")
    (tmp_path / "bracket[1].jpg").write_bytes(b"")
    names = [f"{tmp_path}/bracket[1].jpg", "missing.jpg"]
    assert list(find_inputs(names, "")) == names


def test_equal_names_are_numbered_and_finished_inputs_keep_theirs():
    names = {"p/x.jpg": "x.jpg", "q/x.png": "x.png", "r/x.jpg": "a/x.jpg"}
    assert unique_stems(names, {}) == {"p/x.jpg": "x", "q/x.png": "x-2", "r/x.jpg": "a/x"}
    assert unique_stems(names, {"q/x.png": "x"}) == {"p/x.jpg": "x-2", "q/x.png": "x", "r/x.jpg": "a/x"}
    # A video and an image may share a name, and so may an input of the interrupted run that is not given now.
    assert unique_stems({"x.mp4": "x.mp4"}, {"x.jpg": "x"}) == {"x.mp4": "x"}


def test_a_journal_resumes_after_a_kill_and_goes_with_the_end(tmp_path):
    path = tmp_path / NAME
    with pytest.raises(KeyboardInterrupt), open_journal(str(tmp_path), "key") as journal:
        journal.add("a", "x", {"n": 1})
        journal.add("b", "y", [2])
        raise KeyboardInterrupt
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])  # killed while writing
    with pytest.raises(KeyboardInterrupt), open_journal(str(tmp_path), "key") as journal:
        assert (journal.stems, journal.find("a"), journal.find("b")) == ({"a": "x"}, {"n": 1}, None)
        journal.add("b", "z", [3])
        assert (journal.find("a"), journal.find("b")) == ({"n": 1}, [3])
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), open_journal(str(tmp_path), "key") as journal:
        assert journal.stems == {"a": "x", "b": "z"} and journal.find("b") == [3]
        raise KeyboardInterrupt
    with open_journal(str(tmp_path), "other") as journal:
        assert journal.stems == {} and journal.find("a") is None
    assert not path.exists()
    with s3_server() as bucket, open_journal(f"{bucket}/out", "key") as journal:
        journal.add("a", "x", 1)
        assert journal.find("a") == 1 and not files.exists(f"{bucket}/out")


def test_a_version_follows_the_files_and_is_the_number_of_a_published_one(tmp_path):
    model = save_folder(BlobDetector(), tmp_path / "m")
    first = describe_model(model)
    assert first.startswith("m ") and len(first) == 14
    shutil.copytree(model, tmp_path / "n")
    assert describe_model(str(tmp_path / "n")).split()[1] == first.split()[1]
    (tmp_path / "n" / "Format-Serving" / "more").write_text("x")
    assert describe_model(str(tmp_path / "n")).split()[1] != first.split()[1]
    shutil.copytree(f"{model}/Format-Serving", tmp_path / "p" / "1795305663")
    assert describe_model(str(tmp_path / "p" / "1795305663")) == "1795305663 1795305663"
    (tmp_path / "x.tflite").write_bytes(b"x")
    assert describe_model(str(tmp_path / "x.tflite")).startswith("x.tflite ")


BOX = (0.25, 0.1, 0.75, 0.5)
FOUND = DetectedObject(label=3, name="cat", score=0.5, box=BOX)
RESULTS = {"a/x.png": Prediction(image="p/a/x.png", height=40, width=60, detections=(FOUND,))}
RESULTS |= {"y.png": Prediction(image="p/y.png", height=40, width=60)}


def test_lines_and_annotations_are_of_classes_that_the_model_names_or_finds(tmp_path):
    model, out = save_folder(BlobDetector(), tmp_path / "m"), tmp_path / "out"
    write_formats(("jsonl", "coco", "pictures"), str(out), RESULTS, {0: "dog"}, model)
    assert sorted(os.listdir(out)) == ["annotations.json", "predictions.jsonl"]
    assert PREDICTIONS.read(str(out)) == list(RESULTS.values())
    written = json.loads((out / "annotations.json").read_text())
    assert [(c["id"], c["name"]) for c in written["categories"]] == [(1, "dog"), (3, "cat")]
    assert written["info"] == {"description": describe_model(model)}
    assert [image["file_name"] for image in written["images"]] == ["a/x.png", "y.png"]
    (found,) = written["annotations"]
    assert found["bbox"] == pytest.approx([6, 10, 24, 20]) and found["detflow"] == {"confidence": 0.5}
    assert get_args(PredictionFormat)[4:] == tuple(WRITERS)
    assert set(WRITERS) & set(READERS) == {"coco", "csv", "cvat", "label_studio", "voc", "yolo"}


def test_masks_are_in_coco_annotations(tmp_path):
    mask = MaskRuns(size=(40, 60), counts="abc")
    found = DetectedObject(label=1, name="cat", score=0.5, box=BOX, mask=mask)
    result = Prediction(image="x.png", height=40, width=60, detections=(found,))
    model = save_folder(BlobDetector(), tmp_path / "m")
    write_formats(("coco",), str(tmp_path), {"x.png": result}, {}, model)
    written = json.loads((tmp_path / "annotations.json").read_text())
    assert written["annotations"][0]["segmentation"] == {"size": [40, 60], "counts": "abc"}
