"""What `detflow predict` writes of a video: a line of JSON a frame, and what it says of the whole."""

from __future__ import annotations

import dataclasses
import os

from detection_core.artifacts.json_file import JsonLines
from detection_core.artifacts.json_values import OMIT_DEFAULT
from detection_core.artifacts.prediction import DetectedObject


@dataclasses.dataclass(frozen=True, kw_only=True)
class FramePrediction:
    """What a detector finds in one frame.

    Attributes:
        frame: number of the frame, from 0, of those that could be decoded.
        seconds: its time from the beginning of the video.
        detections: best first.
    """

    frame: int
    seconds: float
    detections: tuple[DetectedObject, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoPrediction:
    """What was done with a video.

    Attributes:
        video: path of the file.
        frames: frames that a detector looked at.
        detections: objects found in all of them.
        faults: packets of the file that could not be decoded; their frames are missing.
        frames_per_second: how fast it went, reading and writing included.
        lines: file with a line a frame.
        annotated: video with the boxes drawn; "" where none was asked for.
        error: why the video could not be used; "" where it could.
    """

    video: str
    frames: int = 0
    detections: int = 0
    faults: int = 0
    frames_per_second: float = 0.0
    lines: str = ""
    annotated: str = ""
    error: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)


FRAMES = JsonLines(
    name="VIDEO.jsonl", content=FramePrediction, writer="`detflow predict`", remedy="predict again"
)

ENDINGS = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm", ".wmv")


def is_video(path: str) -> bool:
    """Return whether a file's ending is that of a video."""
    return os.path.splitext(path)[1].lower() in ENDINGS
