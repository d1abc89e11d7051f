"""The interface of loggers, to which a training sends numbers and pictures."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from typing import Literal

import numpy as np

TRAIN, EVAL = "train", "eval"
"""Splits of numbers and pictures."""

Status = Literal["finished", "failed", "stopped"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram:
    """How the values of a tensor are spread.

    Attributes:
        edges: float [N + 1], rising.
        counts: float [N], values from an edge to below the next.
    """

    edges: np.ndarray
    counts: np.ndarray


class Logger:
    """Receives numbers, pictures and files of a training; the default ignores them.

    A resumed training logs the steps since its checkpoint again.
    """

    def log_parameters(self, values: Mapping[str, str]) -> None:
        """Take the training's parameters: config field to value."""

    def log_scalars(self, values: Mapping[str, float], step: int, split: str) -> None:
        """Take numbers of a step, by name; each finite."""

    def log_images(self, images: Mapping[str, np.ndarray], step: int, split: str) -> None:
        """Take pictures of a step, by name; uint8 [H, W, 3]."""

    def log_histograms(self, values: Mapping[str, Histogram], step: int) -> None:
        """Take how the values of tensors are spread at a step, by name."""

    def log_artifact(self, name: str, content: bytes) -> None:
        """Take a small file; of the same name only the last counts."""

    def close(self, status: Status) -> None:
        """Close files and connections; called once, also after an error."""


_QUALITY = 84


def encode_jpeg(image: np.ndarray) -> bytes:
    """Return a picture, uint8 [H, W, 3], as a JPEG file."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=_QUALITY)
    return stream.getvalue()
