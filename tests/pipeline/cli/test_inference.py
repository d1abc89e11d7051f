"""`detflow predict`: inputs, formats, unusable files, and a run that was killed."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import yaml
from PIL import Image

from components.publishing.destination import PushDestination
from detection_core.allowed_values import PredictionFormat
from detection_core.artifacts.detector import serving_dir
from detection_core.artifacts.published import PublishedVersion
from detection_core.artifacts.signature import PUBLIC_KEY_VARIABLE, sign_folder
from detection_core.errors import ContractError
from detection_core.evaluation import signature_runner
from detection_core.ops.tile_options import TileOptions, tile_options
from detection_core.ops.tiles import tile_windows
from detection_core.tasks.predicting.prediction_journal import NAME
from detection_core.tasks.serving_driver import ServingDriver
from pipeline.settings.data_settings import DataSettings
from pipeline.settings.settings_file import load_settings
from tests.support import videos
from tests.support.blobs import BlobDetector, save_folder, scenes
from tests.support.blobs import write_examples as write_blob_examples
from tests.support.cases import refused
from tests.support.dataset_files import Coco
from tests.support.keys import PRIVATE_KEY, PUBLIC_KEY


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_folder(BlobDetector(), tmp_path_factory.mktemp("model"))


@pytest.fixture
def photos(tmp_path):
    for name, (image, _) in zip(("a.png", "b/a.png", "b/c.png", "d.png"), scenes(4), strict=True):
        (tmp_path / "photos" / "b").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "photos" / name)
    return tmp_path / "photos"


def below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_every_format_is_written_and_folders_are_kept(model, photos, tmp_path, cli):
    out = tmp_path / "out"
    words = [word for name in get_args(PredictionFormat) for word in ("--format", name)]
    told = cli("predict", "--model", model, photos, "--output", out, *words)
    assert told == f"4 pictures in {out}\n"
    stems = ["a", "b/a", "b/c", "d"]
    each = [f"{stem}{end}" for stem in stems for end in (".jpg", ".json")]
    each += [f"voc/Annotations/{stem}.xml" for stem in stems] + [f"yolo/labels/{stem}.txt" for stem in stems]
    whole = ["annotations.json", "coco_results.json", "cvat.xml", "detections.csv", "label_studio.json"]
    assert below(out) == sorted([*each, *whole, "predictions.jsonl", "yolo/data.yaml"])
    lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert [line["image"] for line in lines] == [f"{photos}/{stem}.png" for stem in stems]
    listed = {i["id"]: i for i in json.loads((out / "annotations.json").read_text())["images"]}
    results = json.loads((out / "coco_results.json").read_text())
    assert [listed[found["image_id"]]["file_name"] for found in results] == ["a.png", "b/a.png", "b/c.png"]
    told = cli("predict", "--model", model, photos, "--output", tmp_path / "csv", "--format", "csv")
    assert told == f"4 images as csv in {tmp_path}/csv\n" and below(tmp_path / "csv") == ["detections.csv"]


def test_tiles_find_more_and_are_refused_for_videos_and_detections(model, tmp_path, cli):
    image = Image.new("RGB", (128, 128))
    for place in ((10, 10), (100, 10), (90, 90)):
        image.paste((255, 0, 0), (*place, place[0] + 8, place[1] + 8))
    image.save(tmp_path / "a.png")
    words = ["predict", "--model", model, tmp_path / "a.png", "--format", "json"]
    (whole,) = cli.json(*words, "--output", tmp_path / "whole")
    (found,) = cli.json(*words, "--output", tmp_path / "tiles", "--tiles", "64:0.25")
    assert (len(whole["detections"]), len(found["detections"])) == (1, 4)
    (tmp_path / "a.mp4").touch()
    evaluate = ["evaluate", "--output", tmp_path / "e", "--tiles", "64"]
    for words_, expected in {
        (*words[:3], tmp_path / "a.mp4", "--output", tmp_path / "v", "--tiles", "64"): "found .*a.mp4",
        (*words, "--output", tmp_path / "x", "--tiles", "64:1"): "from 0 to below 1, found 1",
        (*evaluate, "--detections", "a.json", "--annotations", "b.json"): "found detections",
        (*evaluate, "--watch", "work"): "found --watch",
    }.items():
        assert re.search(expected, cli.refused(*words_)), words_


def test_the_commands_and_settings_of_the_page_on_small_objects_are_valid(model, tmp_path, cli, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "own-data.md").read_text(encoding="utf-8")
    section = page.partition("## Small objects\n")[2].partition("\n## ")[0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build" / "trained").mkdir(parents=True)
    (tmp_path / "build" / "trained" / "model").symlink_to(model)
    Image.fromarray(scenes(1)[0][0]).resize((700, 600)).save("photo.jpg")
    write_blob_examples(tmp_path / "build" / "examples", "eval", scenes(4))
    (commands,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    for command in commands.splitlines():
        assert cli(*shlex.split(command)[1:]), command
    assert len(commands.splitlines()) == 2 and Path("build/predicted/photo.json").exists()
    (settings,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    data = DataSettings(**yaml.safe_load(settings)["data"])
    tiles = tile_options(data.tiles.parameters())
    assert tiles == TileOptions(size=320, overlap=0.25)
    # What the page says of a photo.
    assert f"has {len(tile_windows(3000, 4000, tiles))} of these tiles" in section


def test_batches_find_what_single_images_do(tmp_path, cli):
    pytest.importorskip("tensorflow")
    from tests.support.detectors import untrained

    for number, side in enumerate((48, 48, 64, 48, 48, 48)):
        Image.new("RGB", (64, side), (40 * number, 90, 200)).save(tmp_path / f"{number}.png")
    calls = []
    detect = signature_runner.SignatureRunner.detect

    def counted(self, images, names):
        calls.append(len(images))
        return detect(self, images, names)

    words = ["predict", "--model", untrained(), f"{tmp_path}/*.png", "--min-score", "0", "--format", "json"]
    one = cli.json(*words, "--output", tmp_path / "one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signature_runner.SignatureRunner, "detect", counted)
        several = cli.json(*words, "--output", tmp_path / "several", "--batch-size", "2")
    assert calls == [2, 1, 2, 1]
    for single, batched in zip(one, several, strict=True):
        assert single["image"] == batched["image"] and len(single["detections"]) > 0
        scores = [[found["score"] for found in result["detections"]] for result in (single, batched)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert "batch_size: expected 1 or more, found 0" in cli.refused(
        *words, "--output", tmp_path / "none", "--batch-size", "0"
    )


def test_a_killed_run_goes_on_where_it_was(model, photos, tmp_path, cli, monkeypatch):
    out, video = tmp_path / "out", videos.write(tmp_path / "v.mp4", 3)
    words = ["predict", "--model", model, "--output", out, "--format", "json", "--format", "csv", photos]
    calls, stops = [], [f"{photos}/b/c.png"]
    detect = signature_runner.SignatureRunner.detect

    def interrupted(self, images, names):
        calls.extend(names)
        if names == stops:
            stops.clear()
            raise KeyboardInterrupt
        return detect(self, images, names)

    monkeypatch.setattr(signature_runner.SignatureRunner, "detect", interrupted)
    cli(*words, video, code=130)
    assert "run the same command again to resume" in cli.err
    assert below(out) == sorted([NAME, "a.json", "b/a.json", "v-detected.mp4", "v.csv", "v.jsonl"])
    again = cli.json(*words, video)
    frames = [f"frame {n}" for n in range(3)]
    done = [f"{photos}/a.png", f"{photos}/b/a.png", f"{photos}/b/c.png"]
    assert calls == [*frames, *done, f"{photos}/b/c.png", f"{photos}/d.png"]
    assert below(out) == sorted(
        ["a.json", "b/a.json", "b/c.json", "d.json", "detections.csv", "v-detected.mp4", "v.csv", "v.jsonl"]
    )
    calls.clear()
    assert cli.json(*words)[:4] == again[:4] and len(calls) == 4  # a finished run is repeated
    shutil.rmtree(out)
    stops.append(f"{photos}/b/c.png")
    cli(*words, code=130)
    calls.clear()
    cli(*words, "--min-score", "0.3")
    assert f"{photos}/a.png" in calls  # with other options it begins again


def test_unusable_files_are_counted_named_and_read_again(model, photos, tmp_path, cli):
    out, broken = tmp_path / "out", photos / "b" / "bro\nken.jpg"
    broken.write_text("no image")
    words = ["predict", "--model", model, photos, "--output", out, "--format", "csv"]
    told = cli(*words, code=2).splitlines()
    assert told[:2] == [f"4 images as csv in {out}", "1 of 5 files could not be used:"]
    assert told[2].startswith(f"  {photos}/b/bro\\nken.jpg: expected an image") and len(told) == 3
    rows = (out / "detections.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows] == ["filename", "a.png", "b/a.png", "b/c.png", "d.png"]
    shutil.copy(photos / "a.png", broken)
    assert cli(*words) == f"5 images as csv in {out}\n"


def test_videos_of_one_name_in_two_folders_keep_their_folders(model, tmp_path, cli):
    for name in ("a", "b"):
        (tmp_path / "clips" / name).mkdir(parents=True)
        videos.write(tmp_path / "clips" / name / "v.mp4", 2)
    cli("predict", "--model", model, tmp_path / "clips", "--output", tmp_path / "out", "--lines-only")
    assert below(tmp_path / "out") == ["a/v.jsonl", "b/v.jsonl"]
    paths = [tmp_path / "clips" / name / "v.mp4" for name in ("a", "b")]
    cli("predict", "--model", model, *paths, "--output", tmp_path / "flat", "--lines-only")
    assert below(tmp_path / "flat") == ["v-2.jsonl", "v.jsonl"]
    assert os.path.getsize(tmp_path / "flat" / "v.jsonl") > 0


def test_the_commands_of_the_page_run(model, photos, tmp_path, cli, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "serving.md").read_text(encoding="utf-8")
    section = page.partition("## Predict\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    commands = [line for line in "".join(blocks).splitlines() if "detflow predict " in line]
    monkeypatch.chdir(tmp_path)
    for name in ("trained", "first", "second"):
        (tmp_path / "build" / name).mkdir(parents=True)
        (tmp_path / "build" / name / "model").symlink_to(model)
    shutil.copy(photos / "a.png", "photo.jpg")
    Image.open("photo.jpg").save(photos / "b" / "e.jpg")
    Path("list.txt").write_text("photo.jpg\nphotos/b\n")
    videos.write(Path("street.mp4"), 2)
    for command in commands:
        before, _, line = command.rpartition("| ")
        if before:
            names = subprocess.run(before.strip(" |"), shell=True, check=True, capture_output=True, text=True)
            monkeypatch.setattr("sys.stdin", io.StringIO(names.stdout))
        assert cli(*shlex.split(line)[1:]), command
    assert (
        len(commands) > 7
        and "photos/b/e.jpg" in json.loads(Path("build/predicted/e.json").read_text())["image"]
    )


def test_a_model_is_verified_before_it_is_opened(model, photos, tmp_path, cli, monkeypatch):
    destination = PushDestination(str(tmp_path / "pushed"))
    first, second = (
        destination.publish(
            str(serving_dir(str(model))),
            "",
            PublishedVersion(number=0, fingerprint=name),
            0,
            sign=lambda folder: sign_folder(folder, PRIVATE_KEY, "blobs", {}),
        )
        for name in "ab"
    )
    pushed, served = tmp_path / "pushed", Path(destination.saved_model_dir(second.number))
    key = ("--public-key", PUBLIC_KEY)
    cli("predict", "--model", pushed, photos, "--output", tmp_path / "out", *key)
    cli("inspect", pushed, *key)
    served.joinpath("further.txt").write_text("x")
    monkeypatch.setenv(PUBLIC_KEY_VARIABLE, PUBLIC_KEY)
    calls = {
        "predict": ("predict", "--model", pushed, photos, "--output", tmp_path / "none"),
        "select": ("select", "--model", pushed, photos, "--output", tmp_path / "none"),
        "evaluate": ("evaluate", "--model", pushed, "--examples", tmp_path, "--output", tmp_path / "none"),
        "inspect": ("inspect", pushed),
    }
    for words in calls.values():
        assert "found other: further.txt" in cli.refused(*words)
    # A file of detections has no signature.
    (tmp_path / "results.json").write_text("[]")
    found = ("--detections", tmp_path / "results.json", "--examples", tmp_path / "no")
    assert "expected a folder Split-eval" in cli.refused("evaluate", *found, "--output", tmp_path / "none")
    for load in (ServingDriver, lambda folder: destination.fetch(second.number, str(tmp_path / "fetched"))):
        refused(ContractError, "found other: further.txt", load, str(served))
    damaged = Path(destination.saved_model_dir(first.number), "saved_model.pb")
    whole = damaged.read_bytes()
    damaged.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    assert "found other: saved_model.pb" in cli.refused("rollback", pushed)
    assert destination.current() == second and served.is_dir()
    damaged.write_bytes(whole)
    assert cli.json("rollback", pushed)["version"] == first.number


def test_images_to_label_are_counted_and_unusable_ones_told(model, tmp_path, cli):
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    for number, (pixels, _) in enumerate(scenes(6)):
        Image.fromarray(pixels).save(photos / f"{number}.png")
    shutil.copy(photos / "1.png", photos / "copy.png")
    words = ["select", "--model", model, photos, "-n", 2, "--output", out]
    data = Coco(tmp_path / "data").write()
    told = cli(*words, "--labelled", data, "--format", "coco")
    assert told == (
        f"2 of 7 images in {out}/selected.txt\n"
        "1 left out that look like another one or one that is labelled\n"
    )
    names = ["annotations.json", "cvat.xml", "label_studio.json", "selected.txt", "selection.csv"]
    assert sorted(os.listdir(out)) == [*names, "selection.json"]
    (photos / "broken.jpg").write_text("no image")
    found = cli.json(*words, code=2)
    assert found["images"][-1]["error"].startswith("expected an image") and found["schema_version"] == 1
    assert "1 of 8 files could not be used:\n  " in cli(*words, code=2)
    videos.write(photos / "moving.mp4", 2)
    assert "expected images only, found" in cli.refused(*words)


def test_the_commands_and_settings_of_the_page_on_labelling_work(model, tmp_path, cli, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "active-learning.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for folder, count, seed in (("new_photos", 4, 0), ("photos/images", 2, 1)):
        Path(folder).mkdir(parents=True)
        for number, (pixels, _) in enumerate(scenes(count, seed)):
            Image.fromarray(pixels).save(f"{folder}/{number}.png")
    table = "filename,width,height,class,xmin,ymin,xmax,ymax\n0.png,,,red,5,6,20,25\n"
    Path("photos/labels.csv").write_text(table)
    for name in ("build/trained/model", "build/mine/workspace/pushed"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).symlink_to(model)
    examples = Path("build/mine/workspace/artifacts/example_gen/examples/4")
    write_blob_examples(examples, "train", scenes(3, seed=2))
    commands = re.findall(r"^detflow (select .*)$", page, re.MULTILINE)
    found = [cli.json(*shlex.split(command)) for command in commands]
    assert [each["labelled_images"] for each in found] == [1, 3]
    [copying] = re.findall(r"`(mkdir .*?)`", page)
    subprocess.run(copying, shell=True, check=True)
    assert len(os.listdir("upload")) == len(Path("build/next/selected.txt").read_text().splitlines()) == 4
    [given] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    settings = yaml.safe_load(given)
    assert DataSettings(**settings["data"]).window == 1000
    settings |= {"name": "n", "workspace": "w", "model": {"config": "pipeline.config"}}
    Path("settings.yaml").write_text(yaml.safe_dump(settings))
    assert load_settings("settings.yaml", check_files=False).train.warm_start == "deployed"
