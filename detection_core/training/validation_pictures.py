"""Pictures of the same images at each validation, as files for people and the report."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

import numpy as np

from detection_core.artifacts.model_run import ValidationLine
from detection_core.artifacts.pictures import FOLDER, PICTURES, SIDE_BY_SIDE, PictureEntry
from detection_core.loggers.jpeg import encode_jpeg
from detection_core.storage import files
from detection_core.training.actions import TrainingAction

MOST_STEPS = 16
"""Validations of which pictures stay, spread over the training, so that a long one keeps few."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationPicture:
    """An image with detections beside ground truth.

    Attributes:
        number: of the image in the sample.
        source_id: id of the image.
        image: uint8 [H, W, 3].
    """

    number: int
    source_id: str
    image: np.ndarray


PictureSource = Callable[[], Sequence[ValidationPicture]]
"""Gives the pictures of the last validation."""


class PictureFiles(TrainingAction):
    """Writes `pictures/` with an index, whose captions tell the step.

    Args:
        folder: of the unfinished training.
        pictures: gives those of the last validation.
    """

    def __init__(self, folder: str, pictures: PictureSource) -> None:
        self._folder, self._pictures = files.join(folder, FOLDER), pictures
        self._entries: list[PictureEntry] = []

    def start(self, step: int) -> None:
        """Drop what a resumed training will draw again."""
        self._entries = PICTURES.read_valid(self._folder)
        self._keep(lambda drawn: drawn <= step)

    def validated(self, line: ValidationLine) -> None:
        """Write the pictures of a validation."""
        drawn = []
        for picture in self._pictures():
            name = f"step_{line.step:09d}_{picture.number:03d}.jpg"
            files.write_bytes(files.join(self._folder, name), encode_jpeg(picture.image))
            caption = f"step {line.step:,}"
            drawn.append(
                PictureEntry(kind=SIDE_BY_SIDE, source_id=picture.source_id, caption=caption, file=name)
            )
        if drawn:
            self._entries = [e for e in self._entries if step_of(e.file) != line.step] + drawn
            self._thin_out()

    def _thin_out(self) -> None:
        """Drop the steps that leave the smallest gaps; the first and the last stay."""
        steps = sorted({step_of(entry.file) for entry in self._entries})
        while len(steps) > MOST_STEPS:
            del steps[min(range(1, len(steps) - 1), key=lambda i: steps[i + 1] - steps[i - 1])]
        self._keep(lambda step: step in steps)

    def _keep(self, stays: Callable[[int], bool]) -> None:
        """Write the index before files go, so that it never names one that is not there."""
        gone = [entry for entry in self._entries if not stays(step_of(entry.file))]
        self._entries = [entry for entry in self._entries if stays(step_of(entry.file))]
        if self._entries or gone:
            PICTURES.write(self._folder, self._entries)
        for entry in gone:
            files.remove_tree(files.join(self._folder, entry.file))


def step_of(file: str) -> int:
    """Return the step that a file of these pictures is of; -1 for any other file."""
    number = re.match("step_([0-9]{1,18})(_|$)", file)
    return int(number[1]) if number else -1
