"""Video files, and ByteTrack: the numbers that objects keep."""

import itertools
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from detection_core.artifacts.prediction import is_video
from detection_core.errors import ConfigError, DataError
from detection_core.optional.video import video_detection
from detection_core.optional.video.byte_track import ByteTracker
from detection_core.optional.video.video_detection import (
    VideoOptions,
    VideoReader,
    predict_video,
    video_writer,
)
from detection_core.structures import Instances
from tests.support.cases import cases, refused
from tests.support.videos import SIZE, frames, write

MODULE = "detection_core.optional.video.video_detection"


@cases(".mp4", ".avi", ".mkv", ".mov", ".ts")
def test_every_frame_is_read_with_its_time(tmp_path, *, ending):
    path = write(tmp_path / f"video{ending}")
    with VideoReader(path) as reader:
        found = list(reader)
        assert (reader.rate, reader.faults) == (10.0, 0)
    first = found[0].seconds
    assert [f.number for f in found] == list(range(20))
    np.testing.assert_allclose([f.seconds - first for f in found], np.arange(20) / 10, atol=0.02)
    for one, pixels in zip(found, frames(), strict=True):
        assert np.abs(one.pixels.astype(int) - pixels).mean() < 8


def test_what_is_written_is_read_back(tmp_path):
    def written(images, times, rate):
        with video_writer(str(tmp_path / "out.mp4"), rate) as writer:
            for pixels, seconds in zip(images, times, strict=True):
                writer.write(pixels, seconds)
        with VideoReader(str(tmp_path / "out.mp4")) as reader:
            return list(reader)

    found = written(frames(3), (0.0, 0.5, 2.25), 7.0)
    np.testing.assert_allclose([f.seconds for f in found], [0.0, 0.5, 2.25], atol=1e-3)
    assert found[0].pixels.shape == (*SIZE, 3)
    # Odd sizes, frames of other sizes, times that stand still.
    images = [np.zeros((*size, 3), np.uint8) for size in ((33, 35), (50, 20), (33, 35))]
    assert [f.pixels.shape for f in written(images, (0.0,) * 3, 10.0)] == [(32, 34, 3)] * 3


def test_a_file_that_breaks_off_gives_what_can_be_read_and_a_failed_writer_leaves_none(tmp_path):
    with pytest.raises(RuntimeError), video_writer(str(tmp_path / "out.mp4"), 10.0) as writer:
        writer.write(frames(1)[0], 0.0)
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    for name in ("cut.ts", "cut.mp4"):
        data = Path(write(tmp_path / name)).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
    with VideoReader(str(tmp_path / "cut.ts")) as reader:
        assert 0 < len(list(reader)) < 20
    for name in ("cut.mp4", "missing.mp4"):
        refused(DataError, f"{name}: expected a video", VideoReader, str(tmp_path / name))


def test_packets_that_cannot_be_decoded_are_counted_and_passed_over(tmp_path):
    path = tmp_path / "motion.avi"
    write(path, codec="mjpeg", pixel_format="yuvj420p")
    data = bytearray(path.read_bytes())
    at = data.find(b"00dc", len(data) // 2) + 8  # a chunk with a frame: its name, its size, its content
    size = int.from_bytes(data[at - 4 : at], "little")
    data[at : at + size] = bytes(size)
    path.write_bytes(data)
    with VideoReader(str(path)) as reader:
        assert len(list(reader)) == 19 and reader.faults == 1


PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n%s\n#EXT-X-ENDLIST\n"


def test_what_is_no_video_sound_alone_or_leads_to_other_files_is_one_error(tmp_path):
    import av

    other, path = write(tmp_path / "private.ts").encode(), tmp_path / "x.mp4"
    for content in (b"", b"no video " * 100, bytes(5000), PLAYLIST, b"ffconcat version 1.0\nfile '%s'\n"):
        path.write_bytes(content.replace(b"%s", other))
        refused(DataError, r"x\.mp4: expected a video .*; copy it again", VideoReader, str(path))
    with av.open(str(tmp_path / "sound.mkv"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.int16), format="s16", layout="mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
    refused(DataError, "it has no picture", VideoReader, str(tmp_path / "sound.mkv"))


def test_turned_and_too_large_videos_and_no_package(tmp_path, monkeypatch):
    path = write(tmp_path / "a.mp4", count=1)

    def turned(frame: Any, upright: Any = video_detection._upright) -> np.ndarray:
        return upright(SimpleNamespace(to_ndarray=frame.to_ndarray, rotation=90))

    monkeypatch.setattr(video_detection, "_upright", turned)
    with VideoReader(path) as reader:
        (found,) = reader
    assert found.pixels.shape == (SIZE[1], SIZE[0], 3)
    monkeypatch.setattr("detection_core.optional.video.video_detection.MAX_PIXELS", 100)
    refused(DataError, "64x48 are more than 100 pixels", VideoReader, path)
    monkeypatch.setitem(sys.modules, "av", None)
    refused(ConfigError, r"pip install 'detflow\[video\]'", VideoReader, path)
    assert is_video("a/B.MP4") and is_video("s3://x/y.mov") and not is_video("photo.jpg")


def test_a_camera_gives_frames_with_times_from_its_start(monkeypatch):
    """No camera is here: FFmpeg's test source is another device without an end."""
    source = "testsrc=size=64x48:rate=10,setpts=PTS+1000/TB"
    monkeypatch.setattr(f"{MODULE}.CAMERA", re.compile(re.escape(source)))
    monkeypatch.setattr(f"{MODULE}._CAMERA_FORMAT", "lavfi")
    with VideoReader(source) as reader:
        found = list(itertools.islice(reader, 3))
    assert [frame.pixels.shape for frame in found] == [(*SIZE, 3)] * 3
    np.testing.assert_allclose([frame.seconds for frame in found], [0.0, 0.1, 0.2], atol=1e-6)
    monkeypatch.undo()
    assert is_video("/dev/video10") and not is_video("/dev/videos")
    refused(DataError, "/dev/video99: expected a video", VideoReader, "/dev/video99")
    refused(
        ConfigError, "max_frames: expected a number of frames for a camera",
        predict_video, "model", "/dev/video0", "out", VideoOptions(),
    )  # fmt: skip


HEIGHT, WIDTH = 100, 200


def frame(*rows):
    """Detections of (left, score) or (left, score, class): boxes of 20 by 20 pixels, best first."""
    rows = sorted(((*row, 0)[:3] for row in rows), key=lambda row: -row[1])
    boxes = [[0.4, left / WIDTH, 0.6, (left + 20) / WIDTH] for left, _, _ in rows]
    return Instances(
        source_id="", height=HEIGHT, width=WIDTH, boxes=np.array(boxes, np.float32).reshape(-1, 4),
        scores=np.array([score for _, score, _ in rows], np.float32),
        classes=np.array([label for _, _, label in rows], np.int32),
    )  # fmt: skip


def tracked(*frames, score=0.5):
    tracker = ByteTracker(score)
    return [tracker.update(found).tolist() for found in frames]


def test_the_pairs_with_the_largest_total_overlap_are_matched():
    # The first box overlaps the second track most, but then the second box would be left without one.
    before, after = frame((0, 0.9), (14, 0.8)), frame((11, 0.9), (25, 0.8))
    assert tracked(before, after) == [[1, 2], [1, 2]]


def test_objects_that_move_keep_their_numbers_and_new_ones_get_the_next():
    frames = [frame((4 * i, 0.9), (150 - 4 * i, 0.8)) for i in range(8)]
    assert tracked(*frames, frame((32, 0.9), (118, 0.8), (75, 0.7))) == [[1, 2]] * 8 + [[1, 2, 3]]


def test_objects_that_meet_keep_their_numbers_by_their_speed():
    paths = [(3 * i, 110 - 3 * i) for i in range(36)]  # they pass each other at frame 18
    for found, (left, right) in zip(
        tracked(*(frame((one, 0.9), (two, 0.8)) for one, two in paths)), paths, strict=True
    ):
        assert found == [1, 2], (left, right)


def test_an_uncertain_box_continues_a_track_and_begins_none():
    found = tracked(frame((10, 0.9)), frame((12, 0.2), (150, 0.3)), frame((14, 0.05)), frame((16, 0.9)))
    assert found == [[1], [0, 1], [0], [1]]


def test_a_lost_object_comes_back_under_its_number_but_not_after_thirty_frames():
    seen, nothing = frame((50, 0.9)), frame()
    for gap, number in ((0, 1), (29, 1), (30, 2)):
        assert tracked(seen, *[nothing] * gap, seen)[-1] == [number], gap
    # An uncertain box continues tracks of the last frame alone.
    assert tracked(seen, nothing, frame((50, 0.3)))[-1] == [0]


def test_a_track_is_of_one_class_and_far_boxes_are_others():
    assert tracked(frame((50, 0.9, 0)), frame((50, 0.9, 1)), frame((50, 0.9, 0))) == [[1], [2], [1]]
    assert tracked(frame((50, 0.9)), frame((90, 0.9))) == [[1], [2]]
    assert tracked(frame(), frame((90, 0.9))) == [[], [1]]


def test_the_speed_of_steady_motion_is_learned():
    tracker = ByteTracker(0.5)
    for i in range(20):
        tracker.update(frame((5 * i, 0.9)))
    (track,) = tracker._tracks
    np.testing.assert_allclose(track.state[1], [0, 5, 0, 0], atol=0.2)
    track.predict()
    np.testing.assert_allclose(track.box, [40, 100, 60, 120], atol=0.5)
