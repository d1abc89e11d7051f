"""`predict` on a video: detections frame by frame, a drawn video, and what damage leaves."""

import json
import os
import weakref

import numpy as np
import pytest

from detection_core.data.video import VideoReader
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.runner import load_runner
from detection_core.tasks.predict_video import VideoOptions, predict_video
from tests.support.blobs import BlobDetector, save_folder
from tests.support.videos import SIZE, write


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_folder(BlobDetector(), tmp_path_factory.mktemp("model"))


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
        with pytest.raises(ConfigError, match="expected every frame or every few"):
            VideoOptions(**wrong)


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
    monkeypatch.setattr(
        "detection_core.tasks.predict_video.draw_boxes", lambda *_: (_ for _ in ()).throw(MemoryError())
    )
    with pytest.raises(MemoryError):
        predict_video(model, path, str(tmp_path / "none"), VideoOptions())
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
    monkeypatch.setattr("detection_core.tasks.predict_video.load_runner", lambda *_, **__: Watching())
    predict_video(model, write(tmp_path / "v.mp4"), str(tmp_path), VideoOptions())
    assert len(alive) == 20 and most <= 3
