"""DetectionModel messages -> detectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from detection_core.detectors.family import family_of, model_message
from detection_core.protos.model_pb2 import DetectionModel

if TYPE_CHECKING:
    from detection_core.detectors.base import Detector


def build_detector(message: DetectionModel, *, seed: int | None = 0) -> Detector:
    """Build the detector that a checked config describes.

    Args:
        message: the `model` of a config that `check_detector` accepted, or that has its number of classes.
        seed: of the first weights, which depend on it and on their names only. None: zeros, made faster,
            for a detector that is only looked at.

    Raises:
        ConfigError: when a backbone from outside the package is not registered.
    """
    return family_of(message).build(*model_message(message), seed)
