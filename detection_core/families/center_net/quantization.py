"""Quantize the network of a CenterNet; what follows it stays in float."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from detection_core.detectors.quantization import QuantizationOptions
from detection_core.families.center_net.model import CenterNetModel
from detection_core.quantization.rewriting import RewrittenDetector, rewrite

FLOAT_STAGES: Mapping[str, str] = {
    "score_conversion": "after the network: runs once on its heatmaps, in float32",
    "peaks": "after the network: compares and sorts, runs in float32",
}
"""Stages after the network, with the reason why they stay in float."""


def rewrite_center_net(
    detector: CenterNetModel, options: QuantizationOptions, step: tf.Variable | None
) -> RewrittenDetector[CenterNetModel]:
    """Insert fake quantization into the network; see `quantization.rewriting.rewrite`."""
    return rewrite(detector, options, float_stages=FLOAT_STAGES, step=step)
