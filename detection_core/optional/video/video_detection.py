"""The verb `predict` on video files, which are decoded and processed frame by frame."""

import contextlib
import dataclasses
import fractions
import itertools
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from detection_core.artifacts.prediction import (
    CAMERA,
    FRAMES,
    VIDEO_ENDINGS,
    FramePrediction,
    VideoPrediction,
)
from detection_core.builders.evaluation_settings import known_edges
from detection_core.capabilities import import_extra
from detection_core.data.image_header import MAX_PIXELS
from detection_core.datasets.annotation_writers import write_rows
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.drawing import draw_boxes, fit
from detection_core.evaluation.measure import known_classes
from detection_core.evaluation.pictures import detection_boxes
from detection_core.evaluation.runner import load_runner
from detection_core.optional.video.byte_track import ByteTracker
from detection_core.optional.video.video_writer import PYAV, VideoWriter, video_writer
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.tasks.predict import all_names, detected_objects

# Single-file containers only: for playlists, FFmpeg would open other files and hosts.
_FORMATS = "avi,asf,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mpeg,mpegts,mpegvideo"
_CAMERA_FORMAT = "v4l2"
_DEFAULT_RATE = fractions.Fraction(25)
_QUARTER_TURN = 90


class VideoFrame(NamedTuple):
    """A frame.

    Attributes:
        number: index among the decoded frames.
        seconds: time from the start of the video, computed from the frame rate if the file has none.
        pixels: uint8 [H, W, 3], RGB, upright.
    """

    number: int
    seconds: float
    pixels: np.ndarray


class VideoReader(contextlib.AbstractContextManager["VideoReader"]):
    """Reads a video file sequentially, one frame in memory at a time.

    PyAV (`detflow[video]`) has wheels with FFmpeg's libraries for every platform. Unlike OpenCV's reader, it
    distinguishes a broken packet from the end of the file, and returns the time of each frame.

    Attributes:
        rate: average frames per second.
        frames: approximate number of frames; 0 if unknown.
        faults: number of packets so far that could not be decoded.
    """

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises:
            ConfigError: if PyAV is not installed.
            DataError: if the file has no readable video.
        """
        av = import_extra(*PYAV)
        self._path, self._errors = path, av.FFmpegError
        self.faults = 0
        is_camera = bool(CAMERA.fullmatch(path))
        if not (is_camera or os.path.isfile(path)):
            raise DataError("expected a video, found no file; check the path", where=path)
        options = {} if is_camera else {"format_whitelist": _FORMATS, "protocol_whitelist": "file"}
        try:
            self._container = av.open(path, format=_CAMERA_FORMAT if is_camera else None, options=options)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise self._unreadable(str(error)) from error
        try:
            self._stream = self._first_stream()
        except DataError:
            self._container.close()
            raise
        self.rate = float(self._stream.average_rate or self._stream.guessed_rate or _DEFAULT_RATE)
        self.frames = int(self._stream.frames or self._duration() * self.rate)

    def _unreadable(self, reason: str) -> DataError:
        return DataError(
            f"expected a video ({', '.join(VIDEO_ENDINGS)}), found a file that cannot be read as one"
            f" ({reason}); copy it again, or convert it to MP4",
            where=self._path,
        )

    def _first_stream(self) -> Any:
        streams = self._container.streams.video
        # A file truncated within its first frame has a stream without a decoder, on which PyAV 18 crashes.
        if not streams or streams[0].codec_context is None:
            raise self._unreadable("it has no picture" if not streams else "it ends before its first frame")
        context = streams[0].codec_context
        if context.width * context.height > MAX_PIXELS:
            raise self._unreadable(f"{context.width}x{context.height} are more than {MAX_PIXELS} pixels")
        streams[0].thread_type = "AUTO"
        return streams[0]

    def _duration(self) -> float:
        stream, container = self._stream, self._container
        if stream.duration and stream.time_base:
            return float(stream.duration * stream.time_base)
        return float(container.duration or 0) / 1e6

    def __iter__(self) -> Iterator[VideoFrame]:
        """Yield the frames that can be decoded, skip broken packets; DataError if no frame can be."""
        index, began = 0, 0.0
        for frame in self._decoded():
            seconds = index / self.rate if frame.time is None else float(frame.time)
            if CAMERA.fullmatch(self._path):  # whose times are those of a clock
                began = began if index else seconds
                seconds -= began
            yield VideoFrame(number=index, seconds=seconds, pixels=_upright(frame))
            index += 1
        if not index:
            raise self._unreadable(f"{self.faults} packets, none of which can be decoded")

    def _decoded(self) -> Iterator[Any]:
        packets = self._container.demux(self._stream)
        while True:
            try:
                packet = next(packets, None)
            except (self._errors, OSError):
                # Frames after a damaged part of the container cannot be located.
                self.faults += 1
                return
            if packet is None:
                return
            try:
                decoded = packet.decode()
            except (self._errors, ValueError):
                self.faults += 1
            else:
                yield from decoded

    def __exit__(self, *exception: object) -> None:
        self._container.close()


def _upright(frame: Any) -> np.ndarray:
    """Return a frame's pixels rotated as in a player: phones store the orientation separately."""
    pixels: np.ndarray = frame.to_ndarray(format="rgb24")
    turns = round(getattr(frame, "rotation", 0) / _QUARTER_TURN) % 4  # counter-clockwise
    return np.ascontiguousarray(np.rot90(pixels, turns)) if turns else pixels


_logger = logging.getLogger(__name__)

_LONGEST_PX = 1920
_DECIMALS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoOptions:
    """Options of video detection.

    Attributes:
        min_score: minimum score of detections.
        every: process every n-th frame; the others are neither processed nor shown.
        annotate: write a video with the boxes drawn.
        table: write a CSV file with a row per object.
        track: number objects by ByteTrack; detections below `min_score` only count if they continue a track.
        max_frames: end after this many processed frames; 0: at the end of the video.
        trust: run a SavedModel even if its graph has operations that do more than compute.
    """

    min_score: float = 0.5
    every: int = 1
    annotate: bool = True
    table: bool = False
    track: bool = False
    max_frames: int = 0
    trust: bool = False

    def __post_init__(self) -> None:
        """Check the values. Raises ConfigError if a value is out of range."""
        if self.max_frames < 0:
            raise ConfigError(f"expected 0 or more, found {self.max_frames}", where="max_frames")
        if self.every < 1 or not 0 <= self.min_score <= 1:
            raise ConfigError(
                f"expected every frame or every few, and a score from 0 to 1, found {self.every} and"
                f" {self.min_score}",
                where="every, min_score",
            )


def predict_video(
    model_path: str, video: str, output_dir: str, options: VideoOptions, *, stem: str = ""
) -> VideoPrediction:
    """Detect objects in the frames of a video; write `STEM.jsonl` and, annotated, `STEM-detected.mp4`.

    One frame is in memory at a time. Packets that cannot be decoded are counted and skipped. A truncated file
    yields the readable frames. Each output file, `STEM.csv` too, is written completely or not at all.

    Args:
        model_path: a detector folder, a SavedModel, a .tflite file or the folder of an ensemble.
        video: file; one on an object store is downloaded first. Or a camera, `/dev/videoN`.
        output_dir: folder to write; created if missing.
        options: options of the detection.
        stem: of the names of the written files; by default that of the video.

    Raises:
        ConfigError: if PyAV is not installed, or a camera has no `max_frames`.
        ModelError: if the model cannot be run.
        DataError: if no frame of the video can be decoded.
    """
    if CAMERA.fullmatch(video) and not options.max_frames:
        raise ConfigError("expected a number of frames for a camera, found none", where="max_frames")
    look = _Look(model_path, options)
    outputs = files.join(output_dir, stem or os.path.splitext(os.path.basename(video))[0])
    drawn_path = f"{outputs}-detected.mp4" if options.annotate else ""  # the video may be in the same folder
    table: list[Sequence[object]] = [_COLUMNS]
    with files.local_copy(video) as path, VideoReader(path) as reader, contextlib.ExitStack() as stack:
        lines = stack.enter_context(files.atomic_file(f"{outputs}.jsonl"))
        rate = reader.rate / options.every
        drawn = stack.enter_context(video_writer(drawn_path, rate)) if drawn_path else None
        began = time.perf_counter()
        frames = found = 0
        for frame in _progress(reader, options):
            prediction = look(frame, drawn)
            lines.write(FRAMES.format_line(prediction).encode())
            frames, found = frames + 1, found + len(prediction.detections)
            if options.table:
                table += _rows(prediction, *frame.pixels.shape[:2])
        seconds = time.perf_counter() - began
        if options.table:
            write_rows(f"{outputs}.csv", table)
    if reader.faults:
        _logger.warning(
            "predict | %s: %d packets could not be decoded; their frames are missing", video, reader.faults
        )
    return VideoPrediction(
        video=video,
        frames=frames,
        detections=found,
        faults=reader.faults,
        frames_per_second=round(frames / seconds, 2) if seconds else 0.0,
        lines=f"{outputs}.jsonl",
        table=f"{outputs}.csv" if options.table else "",
        annotated=drawn_path,
    )


class _Look:
    """Detects objects in frames, numbers them if that is asked for, and draws them."""

    def __init__(self, model_path: str, options: VideoOptions) -> None:
        self.runner = load_runner(model_path, trust=options.trust)
        self.names, self.edges = known_classes(model_path), known_edges(model_path)
        self.min_score = options.min_score
        self.tracker = ByteTracker(options.min_score) if options.track else None

    def __call__(self, frame: VideoFrame, drawn: VideoWriter | None) -> FramePrediction:
        found = self.runner(frame.pixels, f"frame {frame.number}")
        tracks: np.ndarray = self.tracker.update(found) if self.tracker else np.zeros(len(found.scores), int)
        kept = tracks > 0 if self.tracker else found.scores >= self.min_score
        found, tracks = found.take(kept), tracks[kept]
        names = all_names(found, self.names)
        if drawn is not None:
            boxes = detection_boxes(found, names, 0.0, edges=self.edges)
            if self.tracker:
                numbered = zip(boxes, tracks, strict=True)
                boxes = [dataclasses.replace(box, text=f"#{n} {box.text}") for box, n in numbered]
            picture = draw_boxes(fit(frame.pixels, longest=_LONGEST_PX), boxes)
            drawn.write(np.asarray(picture), frame.seconds)
        detections = zip(detected_objects(found, names, 0.0), tracks.tolist(), strict=True)
        return FramePrediction(
            frame=frame.number,
            seconds=round(frame.seconds, _DECIMALS),
            detections=tuple(dataclasses.replace(o.rounded(), track=number) for o, number in detections),
        )


_COLUMNS = ("frame", "seconds", "track", "class", "xmin", "ymin", "xmax", "ymax", "score")


def _rows(frame: FramePrediction, height: int, width: int) -> Iterator[Sequence[object]]:
    """Yield the cells of `_COLUMNS` for each object; the frame's size is in pixels."""
    for found in frame.detections:
        ymin, xmin, ymax, xmax = found.box
        box = [round(side, 2) for side in (xmin * width, ymin * height, xmax * width, ymax * height)]
        yield (frame.frame, frame.seconds, found.track or "", found.name, *box, found.score)


def _progress(reader: VideoReader, options: VideoOptions) -> Iterator[VideoFrame]:
    """Yield every n-th frame, at most `max_frames`, and report progress."""
    most = options.max_frames * options.every or sys.maxsize
    with Progress("predict", total=min(reader.frames, most), unit="frame") as progress:
        for frame in itertools.islice(reader, most):
            if frame.number % options.every == 0:
                yield frame
            progress.advance()
