"""Output of `detflow predict`: a JSON file per image, or a JSON line per video frame."""

import dataclasses
import os
import re
from typing import Any

from detection_core.artifacts.json_file import JsonFile, JsonLines
from detection_core.artifacts.json_values import JSON_KEY, OMIT_DEFAULT
from detection_core.storage import files

_DECIMALS = 5
_ENDING = ".json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskRuns:
    """A mask of the whole image as COCO's compressed run lengths, which pycocotools decodes.

    Attributes:
        size: rows and columns of the image, pixels.
        counts: the run lengths.
    """

    size: tuple[int, int]
    counts: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class DetectedObject:
    """One detection in an image.

    Attributes:
        label: class id as in the label map, from 1.
        name: the class's name, or its id if the model has no names.
        score: 0 to 1.
        box: ymin, xmin, ymax, xmax, normalised to the image.
        mask: mask of the object; None if the detector has no masks.
        keypoints: y, x of each, normalised to the image; empty if the class has none.
        track: number of the object in a video, from 1; 0 if objects are not tracked.
    """

    label: int = dataclasses.field(metadata={JSON_KEY: "class"})
    name: str
    score: float
    box: tuple[float, float, float, float]
    mask: MaskRuns | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    keypoints: tuple[tuple[float, float], ...] = dataclasses.field(default=(), metadata=OMIT_DEFAULT)
    track: int = dataclasses.field(default=0, metadata=OMIT_DEFAULT)

    def rounded(self) -> "DetectedObject":
        """Return the detection, rounded as in files."""
        ymin, xmin, ymax, xmax = (round(edge, _DECIMALS) for edge in self.box)
        return dataclasses.replace(
            self,
            score=round(self.score, _DECIMALS),
            box=(ymin, xmin, ymax, xmax),
            keypoints=tuple((round(y, _DECIMALS), round(x, _DECIMALS)) for y, x in self.keypoints),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction:
    """Detections in one image.

    Attributes:
        image: path of the image; `image 0`, `image 1`, ... for pixels as input.
        height: of the image, pixels; 0 if it could not be used.
        width: of the image, pixels; 0 if it could not be used.
        detections: highest score first.
        picture: JPEG file with the boxes drawn; "" if not requested.
        brightness: mean of the image's values, 0 to 255; None if it is not known.
        error: why the image could not be used; "" if it could.
    """

    image: str
    height: int = 0
    width: int = 0
    detections: tuple[DetectedObject, ...] = ()
    picture: str = ""
    brightness: float | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    error: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)

    def as_json(self) -> dict[str, Any]:
        """Return the content of the JSON file beside the picture."""
        if self.error:
            return {"image": self.image, "error": self.error}
        return PREDICTION.encode(self.rounded())

    def rounded(self) -> "Prediction":
        """Return the prediction, rounded as in files."""
        return dataclasses.replace(self, detections=tuple(found.rounded() for found in self.detections))


PREDICTION = JsonFile(
    name=f"IMAGE{_ENDING}", content=Prediction, writer="`detflow predict`", remedy="predict again"
)
PREDICTIONS = JsonLines(
    name="predictions.jsonl", content=Prediction, writer="`detflow predict`", remedy="predict again"
)


def write_prediction(stem: str, prediction: Prediction) -> None:
    """Write the prediction of a usable image; `stem` is the path without suffix, shared with the picture."""
    files.write_text(f"{stem}{_ENDING}", PREDICTION.format(prediction.rounded()))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FramePrediction:
    """Detections in one video frame.

    Attributes:
        frame: index among the decoded frames, from 0.
        seconds: its time in the video.
        detections: highest score first.
    """

    frame: int
    seconds: float
    detections: tuple[DetectedObject, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoPrediction:
    """Result for a video.

    Attributes:
        video: path of the file or camera.
        frames: number of frames processed.
        detections: number of objects in all frames.
        faults: number of packets that could not be decoded; their frames are missing.
        frames_per_second: speed, including reading and writing.
        lines: file with a line per frame.
        table: CSV file with a row per object; "" if not requested.
        annotated: video with the boxes drawn; "" if not requested.
        error: why the video could not be used; "" if it could.
    """

    video: str
    frames: int = 0
    detections: int = 0
    faults: int = 0
    frames_per_second: float = 0.0
    lines: str = ""
    table: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)
    annotated: str = ""
    error: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)


FRAMES = JsonLines(
    name="VIDEO.jsonl", content=FramePrediction, writer="`detflow predict`", remedy="predict again"
)

CAMERA = re.compile(r"/dev/video\d+")
VIDEO_ENDINGS = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm", ".wmv")


def is_video(path: str) -> bool:
    """Return whether a file has a video's suffix, or is a camera of Linux."""
    return os.path.splitext(path)[1].lower() in VIDEO_ENDINGS or bool(CAMERA.fullmatch(path))
