"""The interface of loggers, which receive a training's numbers and pictures."""

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
    """Distribution of a tensor's values.

    Attributes:
        edges: float [N + 1], increasing.
        counts: float [N], number of values in [edge, next edge).
    """

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
