"""The verbs that run detectors, on detectors that find bright squares."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from PIL import Image

from detection_core.artifacts.published import Deployment, write_deployment
from pipeline.cli import main
from tests.components.evaluator.test_run import save_model
from tests.detection_core.data.test_video import write as write_video
from tests.detection_core.exporters.test_detector_folder import CONFIG
from tests.detection_core.tasks.test_export_saved_model import written_detector
from tests.support.blobs import BlobDetector, scenes


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return [save_model(BlobDetector(score=score), root / str(score)) for score in (0.9, 0.7)]


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "scene.png"
    Image.fromarray(scenes(1)[0][0]).save(path)
    return str(path)


def test_several_detectors_are_fused_and_the_ensemble_can_be_used_again(models, image, tmp_path, capsys):
    both = [word for model in models for word in ("--model", model)]
    assert main(["predict", *both, image, "--output", str(tmp_path / "out"), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [d["score"] for d in found["detections"]] == [pytest.approx(0.8)]
    again = ["predict", "--model", str(tmp_path / "out" / "ensemble"), image, "--output", str(tmp_path / "2")]
    assert main([*again, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["detections"] == found["detections"]


def test_one_detector_makes_no_ensemble(models, image, tmp_path):
    assert main(["predict", "--model", models[0], image, "--output", str(tmp_path / "out")]) == 0
    assert not (tmp_path / "out" / "ensemble").exists()


def test_a_video_among_images_gives_lines_and_a_drawn_video_and_a_broken_one_is_told(
    models, image, tmp_path, capsys
):
    video = write_video(tmp_path / "moving.mp4", count=5)
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    words = ["predict", "--model", models[0], image, video, str(tmp_path / "broken.mp4"), "--every", "2"]
    assert main([*words, "--output", str(tmp_path / "out"), "--json"]) == 2
    picture, moving, broken = json.loads(capsys.readouterr().out)
    assert picture["image"] == image and moving["video"] == video
    assert (moving["frames"], moving["faults"]) == (3, 0)
    assert "expected a video" in broken["error"]
    assert sorted(os.listdir(tmp_path / "out")) == [
        "moving-detected.mp4",
        "moving.jsonl",
        "scene.jpg",
        "scene.json",
    ]


def test_a_broken_video_alone_is_one_error(models, tmp_path, capsys):
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    words = ["predict", "--model", models[0], str(tmp_path / "broken.mp4"), "--output", str(tmp_path / "out")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("broken.mp4: expected a video") == 1 and "Traceback" not in error


def test_a_folder_is_its_images_and_what_cannot_be_used_is_counted_apart(models, image, tmp_path, capfd):
    photos = tmp_path / "photos"
    (photos / "more").mkdir(parents=True)
    for name in ("b.PNG", "a.png", "more/c.png"):
        shutil.copy(image, photos / name)
    for name in ("notes.txt", ".DS_Store", "._a.png"):
        (photos / name).write_text("no image")
    words = ["predict", "--model", models[0], str(photos), "--output", str(tmp_path / "out")]
    assert main(words) == 0
    assert capfd.readouterr().out == f"2 pictures in {tmp_path}/out\n"
    assert sorted(os.listdir(tmp_path / "out")) == ["a.jpg", "a.json", "b.jpg", "b.json"]

    (photos / "broken.jpg").write_text("no image")
    assert main([*words[:4], str(tmp_path / "missing.jpg"), *words[4:]]) == 2
    out, err = capfd.readouterr()
    assert out == f"2 pictures in {tmp_path}/out\n2 of 4 files could not be used\n"
    assert "missing.jpg: expected an image" in err and "broken.jpg: expected an image" in err

    assert main([*words[:3], str(tmp_path / "none.jpg"), str(tmp_path / "none.png"), *words[-2:]]) == 2
    assert "DataError: " in capfd.readouterr().err
    (photos / "more" / "c.png").unlink()
    assert main([*words[:3], str(photos / "more"), *words[-2:]]) == 2
    assert "photos/more: expected images or videos in the folder, found none\n" in capfd.readouterr().err


def test_the_folder_of_the_images_is_no_place_for_the_results(models, image, tmp_path, capsys):
    before = sorted(os.listdir(tmp_path)), (tmp_path / "scene.png").read_bytes()
    assert main(["predict", "--model", models[0], image, "--output", f"{tmp_path}/."]) == 2
    assert "expected another folder than that of the images" in capsys.readouterr().err
    assert before == (sorted(os.listdir(tmp_path)), (tmp_path / "scene.png").read_bytes())


def test_a_push_destination_is_the_version_that_is_deployed(models, image, tmp_path, capsys):
    """What `detflow run` prints as published."""
    pushed = tmp_path / "pushed"
    for number, model in enumerate(models, start=1):
        shutil.copytree(os.path.join(model, "Format-Serving"), pushed / "saved_model" / str(number))
    for number, score in ((1, 0.9), (2, 0.7)):
        write_deployment(str(pushed), Deployment(number, ()))
        out = str(tmp_path / f"out{number}")
        assert main(["predict", "--model", str(pushed), image, "--output", out, "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert [d["score"] for d in found["detections"]] == [pytest.approx(score)]


def test_lines_alone(models, tmp_path, capsys):
    video = write_video(tmp_path / "moving.mp4", count=3)
    words = ["predict", "--model", models[0], video, "--output", str(tmp_path / "out"), "--lines-only"]
    assert main(words) == 0
    assert "3 detections in 3 frames" in capsys.readouterr().out
    assert os.listdir(tmp_path / "out") == ["moving.jsonl"]


def test_a_saved_model_is_written_as_asked_for(tmp_path, capsys):
    detector = written_detector(CONFIG, tmp_path / "detector")
    words = ["export-saved-model", "--model", detector, "--output", str(tmp_path / "out"), "--frozen-graph"]
    assert main([*words, "--input-type", "encoded_image_string_tensor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"saved_model": str(tmp_path / "out" / "saved_model")}
    assert os.path.isfile(tmp_path / "out" / "frozen_inference_graph.pb")
    assert main([*words, "--side-input-names", "context"]) == 2
    assert "expected no side inputs" in capsys.readouterr().err
