import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from detection_core.artifacts.prediction import is_video
from detection_core.errors import ConfigError, DataError
from detection_core.optional.video.video_detection import (
    VideoOptions,
    VideoReader,
    predict_video,
    video_writer,
)
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
    monkeypatch.setattr("detection_core.optional.video.video_detection._turn_of", lambda frame: 90)
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
