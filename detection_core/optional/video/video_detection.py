"""The verb `predict` on video files, which are decoded and processed frame by frame."""

import contextlib
import dataclasses
import fractions
import logging
import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from detection_core.artifacts.prediction import FRAMES, VIDEO_ENDINGS, FramePrediction, VideoPrediction
from detection_core.builders.evaluation_settings import known_edges
from detection_core.data.image_header import MAX_PIXELS
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.drawing import draw_boxes, fit
from detection_core.evaluation.measure import known_classes
from detection_core.evaluation.pictures import detection_boxes
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.signature_runner import Runner
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.tasks.predict import all_names, detected_objects

# Single-file containers only: for playlists, FFmpeg would open other files and hosts.
_FORMATS = "avi,asf,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mpeg,mpegts,mpegvideo"
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


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise ConfigError(
            "expected the package av, which reads video files, found none; install it with"
            " `pip install 'detflow[video]'`"
        ) from error
    return av


class VideoReader:
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
        av = _av()
        self._path, self._errors = path, av.FFmpegError
        self.faults = 0
        if not os.path.isfile(path):
            raise DataError("expected a video, found no file; check the path", where=path)
        try:
            self._container = av.open(
                path, options={"format_whitelist": _FORMATS, "protocol_whitelist": "file"}
            )
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
        index = 0
        for frame in self._decoded():
            seconds = index / self.rate if frame.time is None else float(frame.time)
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

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def __enter__(self) -> "VideoReader":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _upright(frame: Any) -> np.ndarray:
    """Return a frame's pixels rotated as in a player: phones store the orientation separately."""
    pixels: np.ndarray = frame.to_ndarray(format="rgb24")
    turns = round(_turn_of(frame) / _QUARTER_TURN) % 4
    return np.ascontiguousarray(np.rot90(pixels, turns)) if turns else pixels


def _turn_of(frame: Any) -> float:
    """Return the player's counter-clockwise rotation in degrees."""
    return float(getattr(frame, "rotation", 0))


class VideoWriter:
    """An MP4 file (H.264), written frame by frame; frames keep their times."""

    _TICKS = 90_000

    def __init__(self, path: str, rate: float) -> None:
        self._av = _av()
        codec = "libx264" if "libx264" in self._av.codec.codecs_available else "mpeg4"
        self._container = self._av.open(path, "w", format="mp4")
        # Players fail on unusual rates; the frames' times are exact in any case.
        self._stream = self._container.add_stream(codec, rate=max(1, round(rate)))
        self._stream.pix_fmt = "yuv420p"
        self._size: tuple[int, int] | None = None
        self._last = -1

    def write(self, pixels: np.ndarray, seconds: float) -> None:
        """Add a frame, uint8 [H, W, 3], RGB, resized to the first frame's size.

        A time that is not later than the previous frame's is replaced by the next possible one.
        """
        if self._size is None:
            # Most players need 4:2:0 chroma subsampling, hence even sides.
            self._size = tuple(max(2, side - side % 2) for side in pixels.shape[1::-1])
            self._stream.width, self._stream.height = self._size
            self._stream.codec_context.time_base = fractions.Fraction(1, self._TICKS)
        frame = self._av.VideoFrame.from_ndarray(pixels, format="rgb24")
        frame = frame.reformat(*self._size, "yuv420p")
        self._last = max(self._last + 1, round(seconds * self._TICKS))
        frame.pts, frame.time_base = self._last, fractions.Fraction(1, self._TICKS)
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Finish the file."""
        if self._size is not None:
            self._container.mux(self._stream.encode())
        self._container.close()


@contextlib.contextmanager
def video_writer(path: str, rate: float) -> Iterator[VideoWriter]:
    """Yield a video writer; the video appears at `path` only if the block ends without an error."""
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.partial")
    writer = VideoWriter(partial, rate)
    try:
        yield writer
        writer.close()
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(Exception):
            writer.close()
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)
        raise


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
        trust: run a SavedModel even if its graph has operations that do more than compute.
    """

    min_score: float = 0.5
    every: int = 1
    annotate: bool = True
    trust: bool = False

    def __post_init__(self) -> None:
        """Check the values. Raises ConfigError if a value is out of range."""
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
    yields the readable frames. Both output files are written completely or not at all.

    Args:
        model_path: a detector folder, a SavedModel, a .tflite file or the folder of an ensemble.
        video: file; one on an object store is downloaded first.
        output_dir: folder to write; created if missing.
        options: options of the detection.
        stem: of the names of the written files; by default that of the video.

    Raises:
        ConfigError: if PyAV is not installed.
        ModelError: if the model cannot be run.
        DataError: if no frame of the video can be decoded.
    """
    runner = load_runner(model_path, trust=options.trust)
    stem = stem or os.path.splitext(os.path.basename(video))[0]
    with _local_folder(output_dir) as folder, _local_file(video) as path, VideoReader(path) as reader:
        look = _Look(
            runner=runner, names=known_classes(model_path), edges=known_edges(model_path), options=options
        )
        with contextlib.ExitStack() as outputs:
            lines = outputs.enter_context(files.atomic_file(os.path.join(folder, f"{stem}.jsonl")))
            annotated = outputs.enter_context(_annotated(folder, stem, reader.rate, options))
            began = time.perf_counter()
            frames = found = 0
            for frame in _progress(reader, options.every):
                prediction = look(frame, annotated)
                lines.write(FRAMES.format_line(prediction).encode())
                frames, found = frames + 1, found + len(prediction.detections)
            seconds = time.perf_counter() - began
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
        lines=files.join(output_dir, f"{stem}.jsonl"),
        annotated=files.join(output_dir, _annotated_name(stem)) if options.annotate else "",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Look:
    """Detects objects in frames, and draws them."""

    runner: Runner
    names: dict[int, str]
    edges: tuple[tuple[int, int], ...]
    options: VideoOptions

    def __call__(self, frame: VideoFrame, annotated: VideoWriter | None) -> FramePrediction:
        found = self.runner(frame.pixels, f"frame {frame.number}")
        names = all_names(found, self.names)
        if annotated is not None:
            picture = fit(frame.pixels, longest=_LONGEST_PX)
            boxes = detection_boxes(found, names, self.options.min_score, edges=self.edges)
            drawn = draw_boxes(picture, boxes)
            annotated.write(np.asarray(drawn), frame.seconds)
        return FramePrediction(
            frame=frame.number,
            seconds=round(frame.seconds, _DECIMALS),
            detections=tuple(o.rounded() for o in detected_objects(found, names, self.options.min_score)),
        )


def _progress(reader: VideoReader, every: int) -> Iterator[VideoFrame]:
    """Yield every n-th frame, and report progress."""
    with Progress("predict", total=reader.frames, unit="frame") as progress:
        for frame in reader:
            if frame.number % every == 0:
                yield frame
            progress.advance()


def _annotated_name(stem: str) -> str:
    return f"{stem}-detected.mp4"  # must not overwrite the video in the same folder


@contextlib.contextmanager
def _annotated(folder: str, stem: str, rate: float, options: VideoOptions) -> Iterator[VideoWriter | None]:
    if not options.annotate:
        yield None
        return
    with video_writer(os.path.join(folder, _annotated_name(stem)), rate / options.every) as writer:
        yield writer


@contextlib.contextmanager
def _local_file(path: str) -> Iterator[str]:
    """Yield a local copy of a file on an object store, or the path of a local file."""
    if not files.is_remote(path):
        yield path
        return
    with ScratchFolder() as folder:
        copy = os.path.join(folder, os.path.basename(path))
        files.download(path, copy)
        yield copy


@contextlib.contextmanager
def _local_folder(path: str) -> Iterator[str]:
    """Yield a local folder; copy its content to `path` if the block ends without an error."""
    if not files.is_remote(path):
        files.make_dirs(path)
        yield path
        return
    with ScratchFolder() as folder:
        yield folder
        files.copy_tree(folder, path)
