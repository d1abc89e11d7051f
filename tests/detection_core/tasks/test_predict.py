"""`predict` on images and on a video: detections as JSON, drawn, and what damage leaves."""

import csv
import json
import os
import weakref
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from detection_core.errors import ConfigError, DataError, ModelError
from detection_core.evaluation.coco_results import CocoResults
from detection_core.evaluation.runner import load_runner
from detection_core.optional.video import video_detection
from detection_core.optional.video.video_detection import VideoOptions, VideoReader, predict_video
from detection_core.tasks.predict import predict, read_image
from tests.support.blobs import BlobDetector, save_folder, scenes
from tests.support.cases import refused
from tests.support.videos import SIZE, write


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_folder(BlobDetector(), tmp_path_factory.mktemp("model"))


def write_scenes(folder, count=2):
    paths = []
    for i, (image, _) in enumerate(scenes(count)):
        paths.append(str(folder / f"scene{i}.png"))
        Image.fromarray(image).save(paths[-1])
    return paths


def test_pictures_and_json(model, tmp_path):
    paths = write_scenes(tmp_path)
    results = predict(model, paths, str(tmp_path / "out"))
    for i, ((image, truth), result) in enumerate(zip(scenes(2), results, strict=True)):
        assert result.as_json() == json.loads((tmp_path / "out" / f"scene{i}.json").read_text())
        assert (result.image, result.height, result.width) == (paths[i], *image.shape[:2])
        (found,) = result.detections
        assert (found.label, found.name) == (i + 1, ["red", "green"][i])
        np.testing.assert_allclose(found.box, truth.boxes[0], atol=1e-4)
        assert max(Image.open(result.picture).size) >= 320  # small images are enlarged to be read


def test_detections_of_every_score_are_written_as_coco_results(model, tmp_path):
    paths = write_scenes(tmp_path)
    listed = [{"id": 5 + n, "file_name": os.path.basename(path)} for n, path in enumerate(paths)]
    (tmp_path / "truth.json").write_text(json.dumps({"images": listed}))
    out, truth = str(tmp_path / "out"), str(tmp_path / "truth.json")
    results = predict(model, paths, out, min_score=1.1, coco_images=truth)
    assert [result.detections for result in results] == [(), ()]
    runner, found = load_runner(model), CocoResults(f"{out}/coco_results.json", {1: 0, 2: 1})
    for n, (image, _) in enumerate(scenes(2)):
        expected, read = runner(image), found(image, str(5 + n))
        np.testing.assert_array_equal(read.classes, expected.classes)
        np.testing.assert_allclose(read.boxes, expected.boxes, atol=1e-6)
    (tmp_path / "truth.json").write_text(json.dumps({"images": listed[1:]}))
    refused(DataError, "expected one image of this name", predict, model, paths, out, coco_images=truth)


def test_pixels_are_as_good_as_files_and_without_a_folder_nothing_is_written(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (image, _), *_ = scenes(1)
    (path,) = write_scenes(tmp_path, 1)
    of_pixels, of_file = predict(model, [image, path])
    assert of_pixels.detections == of_file.detections
    assert (of_pixels.image, of_pixels.picture, of_file.picture) == ("image 0", "", "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["scene0.png"]
    for image in (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)):
        refused(DataError, r"image 0: expected uint8 \[H, W, 3\], RGB, found", predict, model, [image])
    (result,) = predict(model, [path], str(tmp_path / "out"), min_score=0.95)
    assert result.detections == ()
    with pytest.raises(ConfigError, match="min_score: expected a number, found nan"):
        predict(model, [path], str(tmp_path / "out"), min_score=float("nan"))


def test_bad_images_are_told_and_others_go_on(model, tmp_path, caplog):
    (tmp_path / "text.jpg").write_text("no image")
    good = write_scenes(tmp_path, 1)
    whole = (tmp_path / "scene0.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    bad = [str(tmp_path / name) for name in ("text.jpg", "missing.jpg", "cut.png")]
    results = predict(model, [*bad, *good], str(tmp_path / "out"))
    assert [bool(r.error) for r in results] == [True, True, True, False]
    assert all(path in caplog.text for path in bad)
    refused(DataError, r"text\.jpg: expected an image", predict, model, bad, str(tmp_path / "out2"))


def test_equal_names_do_not_overwrite_each_other(model, tmp_path):
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths += write_scenes(tmp_path / name, 1)
    results = predict(model, paths, str(tmp_path / "out"))
    assert len({r.picture for r in results}) == 2


def test_images_are_read_upright_in_colour_and_sixteen_bits_as_records_are_decoded(tmp_path):
    image = np.zeros((10, 20, 3), np.uint8)
    image[:, :10] = 255
    turned = Image.fromarray(np.rot90(image))  # as a camera held sideways stores it
    exif = Image.Exif()
    exif[0x0112] = 6  # "rotate 90 degrees clockwise to show"
    turned.save(tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(read_image(str(tmp_path / "turned.png")), image)
    Image.fromarray(image[..., 0]).save(tmp_path / "grey.png")
    assert read_image(str(tmp_path / "grey.png")).shape == (10, 20, 3)
    deep = (np.arange(12 * 20).reshape(12, 20) * 273).astype(np.uint16)
    for name in ("deep.png", "deep.tif"):
        Image.fromarray(deep).save(tmp_path / name)
        decoded = tf.io.decode_image((tmp_path / "deep.png").read_bytes(), channels=3)
        np.testing.assert_array_equal(read_image(str(tmp_path / name)), decoded)
    Image.fromarray(np.ones((4, 4), np.float32)).save(tmp_path / "float.tif")
    with pytest.raises(DataError, match=r"float\.tif: expected at most 16 bits a channel, found mode F"):
        read_image(str(tmp_path / "float.tif"))


def test_bombs_other_formats_and_pipes_are_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr("detection_core.data.image_header.MAX_PIXELS", 100)
    Image.new("RGB", (20, 20)).save(tmp_path / "big.png")
    refused(DataError, "expected at most 100 pixels", read_image, str(tmp_path / "big.png"))
    # PostScript would start Ghostscript on whatever the file says.
    started = Mock(side_effect=AssertionError("Ghostscript was started"))
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", started)
    head = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n"
    (tmp_path / "photo.jpg").write_bytes(head + b"(/etc/passwd) (r) file\n")
    refused(DataError, r"photo\.jpg: expected an image", read_image, str(tmp_path / "photo.jpg"))
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(DataError, match=r"pipe\.jpg: expected an image, .*regular file"):
        read_image(str(tmp_path / "pipe.jpg"))


def test_a_model_that_does_more_than_compute_is_run_for_those_who_trust_it(tmp_path):
    class Printing(BlobDetector):
        @tf.function(input_signature=[tf.TensorSpec([1, None, None, 3], tf.uint8)])
        def serve(self, input_tensor):
            tf.print("seen", output_stream=f"file://{tmp_path}/seen")
            return BlobDetector.serve.python_function(self, input_tensor)

    model, images = save_folder(Printing(), tmp_path / "m"), write_scenes(tmp_path, 1)
    refused(ModelError, "found PrintV2", predict, model, images, str(tmp_path / "out"))
    predict(model, images, str(tmp_path / "out"), trust=True)
    assert (tmp_path / "seen").exists()


def lines(report):
    return [json.loads(line) for line in open(report.lines, encoding="utf-8")]


def test_each_frame_is_a_line_and_the_video_is_drawn_on(model, tmp_path):
    report = predict_video(model, write(tmp_path / "moving.mp4"), str(tmp_path), VideoOptions())
    assert (report.frames, report.faults, report.error) == (20, 0, "") and report.frames_per_second > 0
    found = lines(report)
    assert [line["frame"] for line in found] == list(range(20))
    lefts = [line["detections"][0]["box"][1] for line in found[:20]]
    # The square moves by 2 of 64 pixels a frame; the codec blurs its edges.
    np.testing.assert_allclose(lefts, np.arange(20) * 2 / SIZE[1], atol=0.05)
    assert {d["name"] for line in found for d in line["detections"]} == {"red"}
    with VideoReader(report.annotated) as reader:
        assert len(list(reader)) == 20
    assert sorted(os.listdir(tmp_path)) == ["moving-detected.mp4", "moving.jsonl", "moving.mp4"]


def test_every_few_frames_lines_alone_and_no_low_scores(model, tmp_path):
    options = VideoOptions(every=5, annotate=False)
    report = predict_video(model, write(tmp_path / "v.avi"), str(tmp_path / "out"), options)
    assert [line["frame"] for line in lines(report)] == [0, 5, 10, 15]
    assert report.annotated == "" and os.listdir(tmp_path / "out") == ["v.jsonl"]
    options = VideoOptions(min_score=0.95, annotate=False)
    report = predict_video(model, write(tmp_path / "v.mp4", count=2), str(tmp_path), options)
    assert report.detections == 0 and [line["detections"] for line in lines(report)] == [[], []]
    for wrong in ({"every": 0}, {"min_score": float("nan")}, {"min_score": 2.0}):
        refused(ConfigError, "expected every frame or every few", VideoOptions, **wrong)


def test_objects_are_numbered_in_lines_table_and_video_and_a_video_may_end_early(
    model, tmp_path, monkeypatch
):
    drawn = []
    draw = video_detection.draw_boxes
    drawing = lambda image, boxes: drawn.append(boxes) or draw(image, boxes)  # noqa: E731
    monkeypatch.setattr(video_detection, "draw_boxes", drawing)
    options = VideoOptions(track=True, table=True, max_frames=4, every=2)
    report = predict_video(model, write(tmp_path / "v.mp4"), str(tmp_path / "out"), options)
    assert sorted(os.listdir(tmp_path / "out")) == ["v-detected.mp4", "v.csv", "v.jsonl"]
    found = lines(report)
    assert [line["frame"] for line in found] == [0, 2, 4, 6]
    assert [detection["track"] for line in found for detection in line["detections"]] == [1] * 4
    assert [[box.text for box in boxes] for boxes in drawn] == [["#1 red 0.90"]] * 4
    with open(report.table, encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["frame", "seconds", "track", "class", "xmin", "ymin", "xmax", "ymax", "score"]
    for line, row in zip(found, rows, strict=True):
        ymin, xmin, ymax, xmax = line["detections"][0]["box"]
        assert row[:4] == [str(line["frame"]), str(line["seconds"]), "1", "red"]
        box = [xmin * SIZE[1], ymin * SIZE[0], xmax * SIZE[1], ymax * SIZE[0]]
        np.testing.assert_allclose([float(side) for side in row[4:8]], box, atol=0.01)
    plain = predict_video(model, str(tmp_path / "v.mp4"), str(tmp_path / "plain"), VideoOptions())
    assert plain.table == "" and all("track" not in line["detections"][0] for line in lines(plain))
    refused(ConfigError, "max_frames: expected 0 or more", VideoOptions, max_frames=-1)


def test_what_breaks_leaves_nothing_but_what_was_read_before_a_video_breaks_off(model, tmp_path, monkeypatch):
    write(tmp_path / "v.ts")
    data = (tmp_path / "v.ts").read_bytes()
    (tmp_path / "cut.ts").write_bytes(data[: len(data) // 2])
    report = predict_video(model, str(tmp_path / "cut.ts"), str(tmp_path / "out"), VideoOptions())
    assert 0 < report.frames == len(lines(report)) < 20
    (tmp_path / "bad.mp4").write_bytes(data[:300])
    with pytest.raises(DataError, match=r"bad\.mp4: expected a video"):
        predict_video(model, str(tmp_path / "bad.mp4"), str(tmp_path / "out"), VideoOptions())
    assert sorted(os.listdir(tmp_path / "out")) == ["cut-detected.mp4", "cut.jsonl"]
    path = write(tmp_path / "v.mp4")
    monkeypatch.setattr(video_detection, "draw_boxes", Mock(side_effect=MemoryError))
    refused(MemoryError, "", predict_video, model, path, str(tmp_path / "none"), VideoOptions())
    assert os.listdir(tmp_path / "none") == []


def test_memory_does_not_grow_with_the_video(model, tmp_path, monkeypatch):
    """No frame is kept: of those that were decoded before, none is alive when the next one comes."""
    alive: list[weakref.ref] = []
    most = 0

    class Watching:
        path = "w"

        def __call__(self, image, source_id=""):
            nonlocal most
            alive.append(weakref.ref(image))
            most = max(most, sum(ref() is not None for ref in alive))
            return runner(image, source_id)

    runner = load_runner(model)
    monkeypatch.setattr(video_detection, "load_runner", lambda *_, **__: Watching())
    predict_video(model, write(tmp_path / "v.mp4"), str(tmp_path), VideoOptions())
    assert len(alive) == 20 and most <= 3
