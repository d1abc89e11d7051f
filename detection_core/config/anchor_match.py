"""Fit the anchors of a config to the boxes of a data set, for every detector family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from detection_core.detectors.family import AnchorFit, family_of, model_message
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

if TYPE_CHECKING:
    import numpy as np


def fit_anchors(
    config: TrainEvalPipelineConfig, boxes: np.ndarray, *, keep_count: bool = False
) -> AnchorFit | None:
    """Choose anchor sizes and aspect ratios that fit the given boxes; None without anchors to fit.

    Args:
        config: a checked config.
        boxes: float [N, 4] (ymin, xmin, ymax, xmax), normalised to the network's input.
        keep_count: keep the number of anchors per location, because initial weights may depend on it.

    Raises:
        ConfigError: when the config names no family, or images of different sizes.
    """
    support = family_of(config.model).anchors
    if support is None or support.fit is None:
        return None
    return support.fit(*model_message(config.model), boxes, keep_count=keep_count)
