"""Chooses the anchors of a config by the boxes of a data set, whatever the family of its detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from detection_core.detectors.family import AnchorFit, family_of, model_message
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
        What to change, and how many boxes are matched before and after; None for a detector without anchors
        that could be chosen.

    Raises:
        ConfigError: when the config names no family, or images of different sizes.
    """
    support = family_of(config.model).anchors
    if support is None or support.fit is None:
        return None
    return support.fit(*model_message(config.model), boxes, keep_count=keep_count)
