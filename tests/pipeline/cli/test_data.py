"""Verbs on data, detectors and tunings."""

import argparse
import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from PIL import Image

from component_specs import ExampleGenJob, TFLiteExporterJob
from components.example_gen.run import run as make
from detection_core.artifacts.published import CURRENT, Deployment
from detection_core.datasets.readers import READERS
from detection_core.errors import ConfigError, DetectionError
from detection_core.storage import files
from detection_core.tasks import cross_validation
from pipeline.cli import standalone
from pipeline.cli.base import output_folder
from pipeline.cli.data import examples_of, report
from pipeline.cli.workflow import _describe_search
from pipeline.tuning.search import TrialRecord
from pipeline.tuning.settings_search import TuneResult
from tests.pipeline.conftest import DIGITS
from tests.support import videos
from tests.support.blobs import BlobDetector, save_folder, scenes
from tests.support.command_line import CommandLine
from tests.support.dataset_files import Coco, voc_xml, write_voc
from tests.support.detectors import untrained
from tests.support.object_store import s3_server


def test_a_data_set_is_converted_and_said_in_words_and_as_json(tmp_path, cli):
    data = write_voc(tmp_path / "in", names=["a", "b"], b=voc_xml("b", size=("wide", 30)))
    words = ["data", "convert", data]
    out = cli(*words, "-o", tmp_path / "out")
    assert "found: voc: 2 XML files in Annotations/" in out and "1 put aside, listed in" in out
    assert f"1 images, 1 objects in {tmp_path}/out: annotations.json" in out
    data = cli.json(*words, "-o", tmp_path / "again")
    assert data["annotations"] == {"": f"{tmp_path}/again/annotations.json"} and data["quarantined"] == 1
    folder = Coco(tmp_path / "coco").write()
    assert "ConfigError" in cli.refused("data", "convert", folder, "-o", folder)
    told = cli.refused("data", "convert", tmp_path / "none", "-o", tmp_path / "out")
    assert "expected the folder of a data set" in told


def test_label_errors_come_from_one_source_of_detections(tmp_path, cli):
    data = write_voc(tmp_path / "data", names=tuple("abcdef"))
    words = ["data", "labels", data, "-o", tmp_path / "out"]
    (tmp_path / "found.json").write_text("[]")
    assert "found none" in cli.json(*words, code=2)["message"]
    both = ["--detections", tmp_path / "found.json", "--folds", 2]
    assert "found --detections and --folds" in cli.json(*words, *both, code=2)["message"]
    box = {"image_id": "a", "category_id": 1, "bbox": [0, 0, 4, 4], "score": 0.9}
    (tmp_path / "found.json").write_text(json.dumps([box]))
    told = cli.json(*words, *both[:2], "--high-score", 0.5, "-n", 1)
    assert (told["high_score"], told["low_score"], told["folds"]) == (0.5, 0.25, 0)
    assert [(error["kind"], error["detected_score"]) for error in told["errors"]] == [("overlooked", 0.9)]
    assert not (tmp_path / "out" / ".examples").exists() and (tmp_path / "out" / "cvat.xml").exists()
    assert "1 suspected: overlooked" in cli(*words, *both[:2], "--high-score", 0.5, "-n", 1)


def test_the_commands_of_the_page_about_label_errors_run(tmp_path, cli, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "data-validation.md").read_text(encoding="utf-8")
    section = page.partition("## Label errors\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^detflow (data labels .*)$", section, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        cross_validation, "train", lambda *_, model_dir, **__: save_folder(BlobDetector(), Path(model_dir))
    )
    save_folder(BlobDetector(), Path("build/trained/model"))
    write_voc(Path("photos"), names=())
    made = [(image, truth) for image, truth in scenes(12) if len(truth.classes)]
    for number, (image, truth) in enumerate(made):
        height, width = image.shape[:2]
        ymin, xmin, ymax, xmax = (truth.boxes[0] * [height, width, height, width]).round().astype(int)
        name = ["a red one", "green"][truth.classes[0] if number else 1 - truth.classes[0]]
        if number == 1:
            xmin, xmax = (0, 9) if xmin > width / 2 else (width - 9, width)
        xml = voc_xml(str(number), [(xmin + 1, ymin + 1, xmax, ymax)], name, size=(width, height))
        Path(f"photos/Annotations/{number}.xml").write_text(xml)
        Image.fromarray(image).save(f"photos/JPEGImages/{number}.jpg", quality=95)
    shutil.copy(DIGITS / "pipeline.config", "pipeline.config")
    splits = {"train": 0.5, "eval": 0.5}
    make(ExampleGenJob(examples="build/examples", data_path="photos", data_format="voc", splits=splits))
    box = {"image_id": "1", "category_id": 1, "bbox": [0, 0, 40, 40], "score": 0.9}
    Path("results.json").write_text(json.dumps([box]))
    found = [cli.json(*shlex.split(command)) for command in commands]
    assert len(found) == 3 and [each["folds"] for each in found] == [3, 0, 0]
    # Examples are divided into folds again, whatever their splits are.
    again = ("--folds", 2, "--config", "pipeline.config", "-o", "build/again")
    divided = cli.json("data", "labels", "build/examples", *again)
    assert divided["folds"] == 2 and {image["split"] for image in divided["images"]} == {"fold-1", "fold-2"}
    assert len(divided["images"]) == len(made)
    swapped = [error for error in found[0]["errors"] if error["kind"] == "swapped"]
    assert [(error["file"], error["label"], error["detected"]) for error in swapped] == [
        ("0.jpg", "green", "a red one")
    ]


def test_a_preview_of_a_folder_prints_its_seed_and_takes_one_source(tmp_path, cli):
    data = write_voc(tmp_path / "data", names=tuple("abcdefgh"))
    words = ["data", "preview", DIGITS / "pipeline.config", "-o", tmp_path / "out", "--data", data]
    told = cli.json(*words, "--seed", 4, "-n", 3)
    assert told["seed"] == 4 and len(told["source_ids"]) == 3
    assert (tmp_path / "out" / "contact_sheet.png").read_bytes().startswith(b"\x89PNG")
    assert "seed 4" in (tmp_path / "out" / "index.html").read_text()
    assert not (tmp_path / "out" / ".examples").exists()
    assert "found both" in cli.json(*words, "--examples", data, code=2)["message"]


def test_a_folder_becomes_a_page_without_a_word_about_its_format_and_so_do_examples(tmp_path, cli):
    voc = write_voc(tmp_path / "data", names=tuple("abcdefgh"))
    words, out = ["data", "report", voc, "-o", tmp_path / "out"], tmp_path / "out"
    told = cli.json(*words)
    assert told["page"] == str(out / "index.html")
    assert told["card"]["format"] == "voc" and told["card"]["total"]["images"] == 8
    page = (out / "index.html").read_text()
    assert "<h3>Boxes</h3>" in page and "<h4>cat</h4>" in page and "data:image/jpeg" in page
    assert not (out / ".examples").exists() and cli.json(*words) and (out / "index.html").read_text() == page
    examples, splits = str(tmp_path / "examples"), {"train": 0.5, "eval": 0.5}
    make(ExampleGenJob(examples=examples, data_path=voc, data_format="voc", splits=splits))
    card = cli.json("data", "report", examples, "-o", tmp_path / "out")["card"]
    assert set(card["splits"]) == {"train", "eval"}


def test_a_report_that_failed_leaves_its_folder_as_it_was_and_format_and_splits_may_be_named(tmp_path, cli):
    (tmp_path / "empty").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("x")
    for folder in ("new", "there"):
        assert "Looked for" in cli.refused("data", "report", tmp_path / "empty", "-o", tmp_path / folder)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["empty", "there", "there/mine.txt"]
    coco = Coco(tmp_path / "data", images=8)
    coco.annotations[0]["bbox"] = [30, 3, 500, 20]
    coco.write("mine.json")
    splits = json.dumps({"train": {"annotations": "mine.json", "images": "images"}})
    words = ["data", "report", tmp_path / "data", "-o", tmp_path / "out", "--format", "coco"]
    card = cli.json(*words, "--splits", splits)["card"]
    assert card["quarantine"]["reasons"] == {"box_outside": 1} and list(card["splits"]) == ["train"]
    assert "annotation 0" in (tmp_path / "out" / "index.html").read_text()


def source(path, output, **flags):
    arguments = argparse.Namespace(**{"format": "", "splits": "", **flags})
    return examples_of(str(path), arguments, str(output))


def test_examples_of_a_data_set_are_there_as_long_as_the_block(tmp_path):
    data = write_voc(tmp_path / "data", names=tuple("abcdefgh"))
    with source(data, tmp_path) as folder:
        assert os.path.exists(os.path.join(folder, "dataset_card.json"))
        with source(folder, tmp_path / "elsewhere") as same:
            assert same == folder
    assert not os.path.exists(folder) and os.path.exists(data)
    with pytest.raises(RuntimeError), source(data, tmp_path) as folder:
        raise RuntimeError
    assert not os.path.exists(folder)
    with source("", tmp_path) as folder:
        assert folder == ""


def test_a_data_set_that_need_not_be_divided_may_be_small_and_keeps_its_own_splits(tmp_path):
    given = argparse.Namespace(format="", splits="")
    Coco(tmp_path / "small", images=1).write()
    with examples_of(str(tmp_path / "small"), given, str(tmp_path / "out"), divided=False) as examples:
        assert [name for name in os.listdir(examples) if name.startswith("Split")] == ["Split-train"]
    Coco(tmp_path / "two", images=3).write("train.json")
    Coco(tmp_path / "two", images=4, first_id=10).write("eval.json")
    with examples_of(str(tmp_path / "two"), given, str(tmp_path / "out"), divided=False) as examples:
        card = json.loads(Path(examples, "dataset_card.json").read_text())
    assert {name: split["images"] for name, split in card["splits"].items()} == {"train": 3, "eval": 4}


def test_splits_are_taken_as_they_are_named_and_what_cannot_be_read_is_one_message(tmp_path):
    Coco(tmp_path / "data", images=8).write("mine.json")
    splits = json.dumps({"all": {"annotations": "mine.json", "images": "images"}})
    with source(tmp_path / "data", tmp_path, format="coco", splits=splits) as folder:
        assert [n for n in os.listdir(folder) if n.startswith("Split-")] == ["Split-all"]
    (tmp_path / "empty").mkdir()
    for flags, said in (
        ({"splits": "{"}, "--splits: expected JSON"),
        ({"splits": "[1]"}, "--splits: expected an object"),
        ({}, "expected an annotated data set"),
        ({"format": "voc"}, "Pascal VOC"),
    ):
        with pytest.raises(DetectionError, match=said), source(tmp_path / "empty", tmp_path, **flags):
            pass
        assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "empty"]
    flags = {argument.flags[0]: argument.options for argument in report.all_arguments()}
    assert flags["--format"]["choices"] == sorted(READERS)


def test_an_object_store_gets_everything_at_the_end_and_nothing_of_a_failure():
    with s3_server() as bucket:
        with output_folder(f"{bucket}/made") as folder:
            files.write_text(f"{folder}/deep/a", "one")
            assert not files.exists(f"{bucket}/made")
        assert files.read_text(f"{bucket}/made/deep/a") == "one" and not os.path.exists(folder)
        with pytest.raises(RuntimeError), output_folder(f"{bucket}/failed") as folder:
            files.write_text(f"{folder}/a", "one")
            raise RuntimeError
        assert not files.exists(f"{bucket}/failed") and not os.path.exists(folder)


def test_a_local_folder_is_written_as_it_is_or_as_it_was_and_one_that_cannot_be_made_is_refused(tmp_path):
    kept = tmp_path / "there"
    kept.mkdir()
    (kept / "mine").write_text("x")
    for folder in (tmp_path / "new", kept):
        with pytest.raises(ZeroDivisionError), output_folder(str(folder), keep_unfinished=False) as output:
            (Path(output) / "model").mkdir()
            (Path(output) / "native.log").write_text("x")
            _ = 1 / 0
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "mine"]
    with output_folder(str(tmp_path / "new"), keep_unfinished=False) as output:
        (Path(output) / "model").mkdir()
    assert (tmp_path / "new" / "model").is_dir()
    with output_folder(str(tmp_path / "new")) as folder:
        assert folder == str(tmp_path / "new") and os.path.isdir(folder)
    (tmp_path / "file").touch()
    refused = pytest.raises(ConfigError, match="cannot make the output folder")
    with refused, output_folder(str(tmp_path / "file" / "x")):
        pass


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
        CURRENT.write(str(pushed), Deployment(number, ()))
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
    assert cli(*words, photos) == f"3 pictures in {out}\n"
    assert sorted(os.listdir(out)) == ["a.jpg", "a.json", "b.jpg", "b.json", "more"]
    (photos / "broken.jpg").write_text("no image")
    told = cli(*words, tmp_path / "missing.jpg", photos, code=2)
    assert told.startswith(
        f"3 pictures in {out}\n2 of 5 files could not be used:\n  {tmp_path}/missing.jpg: "
    )
    assert "missing.jpg: expected an image" in cli.err and "broken.jpg: expected an image" in cli.err
    cli(*words, tmp_path / "none.jpg", tmp_path / "none.png", code=2)
    assert "DataError: " in cli.err
    (photos / "more" / "c.png").unlink()
    cli(*words, photos / "more", code=2)
    assert "photos/more: expected images or videos, found none; check" in cli.err
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


def test_defaults_are_the_component_s_and_flags_reach_it(monkeypatch, tmp_path, cli):
    jobs = []

    def run(job):
        jobs.append(job)
        raise ConfigError("only the job is of interest")

    monkeypatch.setattr("components.tflite_exporter.run.run", run)
    words = ["export", "--model", "m", "--examples", "e", "--output", str(tmp_path), "--quantized-model", "q"]
    more = ["--use-regular-nms", "--max-detections", "20", "--representative-examples", "7", "--no-headless"]
    limits = ["--formats", "int8", "--limits", '{"int8": {"size_mb": 4}}']
    for flags in ((), (*more, *limits)):
        assert "only the job" in cli.refused(*words, *flags)
    default, given = jobs
    assert (default.model, default.examples, default.quantized_model) == ("m", "e", "q")
    folders = {name: str(tmp_path / name) for name in ("tflite", "parity", "blessing")}
    assert default == TFLiteExporterJob(model="m", examples="e", quantized_model="q", **folders)
    assert given.use_regular_nms is True and given.max_detections == 20 and not given.headless
    assert given.representative_examples == 7 and given.formats == ("int8",)
    assert given.limits == {"int8": {"size_mb": 4}}
    flags = {argument.flags[0]: argument.options for argument in standalone.export.all_arguments()}
    assert flags["--max-map-drop"]["help"].endswith(f"(default: {TFLiteExporterJob.max_map_drop:g})")


TRIALS = (
    TrialRecord(number=0, state="complete", score=0.5, overrides={"learning_rate": 0.01}),
    TrialRecord(number=1, state="complete", score=0.75, overrides={"learning_rate": 0.02}),
    TrialRecord(number=2, state="pruned", score=None, overrides={"learning_rate": 1.0}, reason="diverged"),
)
RESULT = TuneResult(trials=TRIALS, best=TRIALS[1], overrides="out/best.yaml", model="out/trials/0001/model")


def test_the_trials_are_listed_best_first_and_wrong_numbers_are_refused(cli):
    found = _describe_search(RESULT, "s.yaml")
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
