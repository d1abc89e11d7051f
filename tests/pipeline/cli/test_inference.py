"""Verbs on detectors: predictions and exports."""

import os
import re
import shutil
from unittest import mock

import pytest
from PIL import Image

from component_specs import TFLiteExporterJob
from detection_core.artifacts.parity import PARITY
from detection_core.artifacts.published import Deployment, write_deployment
from pipeline.cli import standalone
from pipeline.cli.tune import _describe
from pipeline.tuning.search import TrialRecord
from pipeline.tuning.settings_search import TuneResult
from tests.support import videos
from tests.support.blobs import BlobDetector, save_folder, scenes
from tests.support.command_line import CommandLine
from tests.support.detectors import untrained


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return [save_folder(BlobDetector(score=score), root / str(score)) for score in (0.9, 0.7)]


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "scene.png"
    Image.fromarray(scenes(1)[0][0]).save(path)
    return str(path)


def scores(found):
    return [pytest.approx(detection["score"]) for detection in found["detections"]]


def test_detectors_are_fused_and_a_push_destination_is_what_is_deployed(models, image, tmp_path, cli):
    words = ["predict", image, "--output", tmp_path / "out"]
    (found,) = cli.json(*words, *(word for model in models for word in ("--model", model)))
    assert scores(found) == [0.8]
    again = cli.json("predict", "--model", tmp_path / "out" / "ensemble", image, "--output", tmp_path / "2")
    assert again[0]["detections"] == found["detections"]
    cli("predict", "--model", models[0], image, "--output", tmp_path / "one")
    assert not (tmp_path / "one" / "ensemble").exists()
    pushed = tmp_path / "pushed"  # what `detflow run` prints as published
    for number, model in enumerate(models, start=1):
        shutil.copytree(os.path.join(model, "Format-Serving"), pushed / "saved_model" / str(number))
    for number, score in ((1, 0.9), (2, 0.7)):
        write_deployment(str(pushed), Deployment(number, ()))
        (found,) = cli.json("predict", "--model", pushed, image, "--output", tmp_path / f"out{number}")
        assert scores(found) == [score]


def test_a_video_gives_lines_and_a_drawn_video_and_a_broken_one_is_told(models, image, tmp_path, cli):
    video, out = videos.write(tmp_path / "moving.mp4", 5), tmp_path / "out"
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    words = ["predict", "--model", models[0], "--output", out]
    picture, moving, broken = cli.json(*words, "--every", "2", image, video, tmp_path / "broken.mp4", code=2)
    assert picture["image"] == image and moving["video"] == video
    assert (moving["frames"], moving["faults"]) == (3, 0) and "expected a video" in broken["error"]
    assert sorted(os.listdir(out)) == ["moving-detected.mp4", "moving.jsonl", "scene.jpg", "scene.json"]
    told = cli.refused(*words, tmp_path / "broken.mp4")
    assert told.count("broken.mp4: expected a video") == 1
    told = cli("predict", "--model", models[0], video, "--output", tmp_path / "lines", "--lines-only")
    assert "5 detections in 5 frames" in told and os.listdir(tmp_path / "lines") == ["moving.jsonl"]


def test_a_folder_is_its_images_and_what_cannot_be_used_is_counted_apart(models, image, tmp_path, capfd):
    cli, photos, out = CommandLine(capfd), tmp_path / "photos", tmp_path / "out"
    (photos / "more").mkdir(parents=True)
    for name in ("b.PNG", "a.png", "more/c.png"):
        shutil.copy(image, photos / name)
    for name in ("notes.txt", ".DS_Store", "._a.png"):
        (photos / name).write_text("no image")
    words = ["predict", "--model", models[0], "--output", out]
    assert cli(*words, photos) == f"2 pictures in {out}\n"
    assert sorted(os.listdir(out)) == ["a.jpg", "a.json", "b.jpg", "b.json"]
    (photos / "broken.jpg").write_text("no image")
    told = cli(*words, tmp_path / "missing.jpg", photos, code=2)
    assert told == f"2 pictures in {out}\n2 of 4 files could not be used\n"
    assert "missing.jpg: expected an image" in cli.err and "broken.jpg: expected an image" in cli.err
    cli(*words, tmp_path / "none.jpg", tmp_path / "none.png", code=2)
    assert "DataError: " in cli.err
    (photos / "more" / "c.png").unlink()
    cli(*words, photos / "more", code=2)
    assert "photos/more: expected images or videos in the folder, found none\n" in cli.err
    before = sorted(os.listdir(tmp_path)), (tmp_path / "scene.png").read_bytes()
    told = cli.refused("predict", "--model", models[0], image, "--output", f"{tmp_path}/.")
    assert "expected another folder than that of the images" in told
    assert before == (sorted(os.listdir(tmp_path)), (tmp_path / "scene.png").read_bytes())


def test_a_saved_model_is_written_as_asked_for(tmp_path, cli):
    out = tmp_path / "out"
    words = ["export-saved-model", "--model", untrained(), "--output", out, "--frozen-graph"]
    made = cli.json(*words, "--input-type", "encoded_image_string_tensor")
    assert made == {"saved_model": str(out / "saved_model")} and (out / "frozen_inference_graph.pb").is_file()
    assert "expected no side inputs" in cli.refused(*words, "--side-input-names", "context")


def test_defaults_are_the_component_s_and_flags_reach_it(monkeypatch, cli):
    run = mock.Mock(return_value={"blessed": True, "files": [], "reasons": []})
    monkeypatch.setattr(standalone, "_run_step", run)
    words = ["export", "--model", "m", "--examples", "e", "--output", "o"]
    more = ["--use-regular-nms", "--max-detections", "20", "--representative-examples", "7"]
    cli(*words)
    cli(*words, *more, "--formats", "int8")
    assert run.call_args.args[:3] == ("tflite_exporter", PARITY, "parity")
    defaults, given = (call.kwargs for call in run.call_args_list)
    for name in ("use_regular_nms", "max_detections", "representative_examples", "form", "max_map_drop"):
        assert defaults[name] == getattr(TFLiteExporterJob, name)
    assert given["use_regular_nms"] is True and given["max_detections"] == 20
    assert given["representative_examples"] == 7 and list(given["formats"]) == ["int8"]


TRIALS = (
    TrialRecord(number=0, state="complete", score=0.5, overrides={"learning_rate": 0.01}),
    TrialRecord(number=1, state="complete", score=0.75, overrides={"learning_rate": 0.02}),
    TrialRecord(number=2, state="pruned", score=None, overrides={"learning_rate": 1.0}, reason="diverged"),
)
RESULT = TuneResult(trials=TRIALS, best=TRIALS[1], overrides="out/best.yaml", model="out/trials/0001/model")


def test_the_trials_are_listed_best_first_and_wrong_numbers_are_refused(cli):
    found = _describe(RESULT, "s.yaml")
    table, text = found.text.parts
    assert [row[0] for row in table.rows[1:]] == ["2", "1", "3"]
    assert "detflow run s.yaml --override-file out/best.yaml" in text
    assert re.search(r"^score=0\.7500000000$", text, re.MULTILINE)
    assert (found.data["best"], found.data["score"]) == (1, 0.75)
    words = ["tune", "settings.yaml", "--space", "space.yaml"]
    for flag in ("--workers", "--trials"):
        assert f"{flag}: expected 1 or more, found 0" in cli.refused(*words, flag, "0")
    told = cli.refused(*words, "--output", "s3://bucket/search")
    assert "--output: expected a folder on this machine" in told
