"""The interface of loggers, which receive a training's numbers and pictures, and their runs' ids."""

import dataclasses
import io
import json
from collections.abc import Mapping
from typing import Literal

import numpy as np

from detection_core.storage import files

TRAIN, EVAL = "train", "eval"
"""Splits of numbers and pictures."""

Status = Literal["finished", "failed", "stopped"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram:
    """A tensor's values: N + 1 increasing edges, and the number of values from each to the next."""

    edges: np.ndarray
    counts: np.ndarray


class Logger:
    """Receives numbers, pictures and files of a training; the default ignores them.

    A resumed training logs the steps since its checkpoint again.
    """

    def log_parameters(self, values: Mapping[str, str]) -> None:
        """Log the training's parameters: config field to value."""

    def log_scalars(self, values: Mapping[str, float], step: int, split: str) -> None:
        """Log finite numbers of a step, by name."""

    def log_images(self, images: Mapping[str, np.ndarray], step: int, split: str) -> None:
        """Log pictures of a step, by name; uint8 [H, W, 3]."""

    def log_histograms(self, values: Mapping[str, Histogram], step: int) -> None:
        """Log histograms of tensors at a step, by name."""

    def log_artifact(self, name: str, content: bytes) -> None:
        """Log a small file; a later file of the same name replaces it."""

    def close(self, status: Status) -> None:
        """Close files and connections; called once, also after an error."""


_QUALITY = 84


def encode_jpeg(image: np.ndarray) -> bytes:
    """Encode a picture, uint8 [H, W, 3], as JPEG."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=_QUALITY)
    return stream.getvalue()


class RunIds:
    """Run ids by tracking server, stored in the folder of the unfinished training."""

    def __init__(self, folder: str) -> None:
        self._path = files.join(folder, "tracked_runs.json")

    def find(self, tracker: str) -> str:
        """Return the id of a run, "" if there is none yet."""
        return self._read().get(tracker, "")

    def keep(self, tracker: str, run_id: str) -> None:
        """Store the id of a run."""
        files.write_text(self._path, json.dumps(self._read() | {tracker: run_id}, indent=1) + "\n")

    def _read(self) -> dict[str, str]:
        return dict(json.loads(files.read_text(self._path))) if files.exists(self._path) else {}
