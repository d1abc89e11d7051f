"""The anchors of a config against the boxes of a data set, whatever the family of its detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from detection_core.detectors.family import AnchorFit, AnchorSupport, family_of, model_message
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

if TYPE_CHECKING:
    import numpy as np


def fit_anchors(
    config: TrainEvalPipelineConfig, boxes: np.ndarray, *, keep_count: bool = False
) -> AnchorFit | None:
    """Choose sizes and ratios of anchors by boxes.

    Args:
        config: a checked config.
        boxes: float [N, 4] (ymin, xmin, ymax, xmax), normalised to the network's input.
        keep_count: as many anchors at each place as there are, as weights to start from may need it.

    Returns:
        What to change, and how many boxes are matched before and after; None for a detector without anchors.

    Raises:
        ConfigError: when the config names no family, or images of different sizes.
    """
    support = _support(config)
    return support.fit(*model_message(config.model), boxes, keep_count=keep_count) if support else None


def anchor_overlaps(config: TrainEvalPipelineConfig, boxes: np.ndarray) -> np.ndarray | None:
    """Return the highest intersection over union that an anchor of the config has with each box.

    Args:
        config: a checked config.
        boxes: float [N, 4], normalised to the network's input.

    Returns:
        float64 [N]; None for a detector without anchors.

    Raises:
        ConfigError: as `fit_anchors`.
    """
    support = _support(config)
    return support.overlaps(*model_message(config.model), boxes) if support else None


def _support(config: TrainEvalPipelineConfig) -> AnchorSupport | None:
    return family_of(config.model).anchor_fit
