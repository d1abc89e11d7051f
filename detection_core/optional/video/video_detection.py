"""The verb `predict` on video files, which are decoded and processed frame by frame."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Iterator

import numpy as np

from detection_core.artifacts.prediction import FRAMES, FramePrediction, VideoPrediction
from detection_core.errors import ConfigError
from detection_core.evaluation.drawing import draw_boxes, fit
from detection_core.evaluation.measure import known_classes
from detection_core.evaluation.pictures import detection_boxes
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.signature_runner import Runner
from detection_core.optional.video.video_file import VideoFrame, VideoReader, VideoWriter, video_writer
from detection_core.progress import Progress
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.tasks.predict import all_names, detected_objects

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
        """Check the values.

        Raises:
            ConfigError: if a value is out of range.
        """
        if self.every < 1 or not 0 <= self.min_score <= 1:
            raise ConfigError(
                f"expected every frame or every few, and a score from 0 to 1, found {self.every} and"
                f" {self.min_score}",
                where="every, min_score",
            )


def predict_video(model_path: str, video: str, output_dir: str, options: VideoOptions) -> VideoPrediction:
    """Detect objects in the frames of a video; write `NAME.jsonl` and, annotated, `NAME-detected.mp4`.

    One frame is in memory at a time. Packets that cannot be decoded are counted and skipped. A truncated file
    yields the readable frames. Both output files are written completely or not at all.

    Args:
        model_path: a detector folder, a SavedModel, a .tflite file or the folder of an ensemble.
        video: file; one on an object store is downloaded first.
        output_dir: folder to write; created if missing.
        options: options of the detection.

    Raises:
        ConfigError: if PyAV is not installed.
        ModelError: if the model cannot be run.
        DataError: if no frame of the video can be decoded.
    """
    runner = load_runner(model_path, trust=options.trust)
    stem = os.path.splitext(os.path.basename(video))[0]
    with _local_folder(output_dir) as folder, _local_file(video) as path, VideoReader(path) as reader:
        look = _Look(runner=runner, names=known_classes(model_path), options=options)
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
    options: VideoOptions

    def __call__(self, frame: VideoFrame, annotated: VideoWriter | None) -> FramePrediction:
        found = self.runner(frame.pixels, f"frame {frame.number}")
        names = all_names(found, self.names)
        if annotated is not None:
            picture = fit(frame.pixels, longest=_LONGEST_PX)
            drawn = draw_boxes(picture, detection_boxes(found, names, self.options.min_score))
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
