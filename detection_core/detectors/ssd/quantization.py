"""Quantization of one-stage detectors: their one network carries it, what follows stays in float."""

from __future__ import annotations

import tensorflow as tf

from detection_core.detectors.ssd.model import SsdModel
from detection_core.quantization.quantizers import QuantizationOptions
from detection_core.quantization.rewriting import RewrittenDetector, rewrite

FLOAT_STAGES = {
    "score_conversion": "after the network: runs once on its outputs, in float32",
    "box_decoding": "after the network: small against the convolutions, and its exponential needs the range",
    "non_max_suppression": "after the network: compares and sorts, runs in float32",
}


def rewrite_ssd(
    detector: SsdModel, options: QuantizationOptions, step: tf.Variable | None
) -> RewrittenDetector[SsdModel]:
    """Put fake quantization into the network; see `quantization.rewriting.rewrite`."""
    return rewrite(detector, options, float_stages=FLOAT_STAGES, step=step)
