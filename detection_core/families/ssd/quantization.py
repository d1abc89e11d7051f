"""Quantize the network of one-stage detectors; post-processing stays in float."""

from __future__ import annotations

import tensorflow as tf

from detection_core.detectors.quantization import QuantizationOptions
from detection_core.families.ssd.model import SsdModel
from detection_core.quantization.rewriting import FLOAT_STAGES, RewrittenDetector, rewrite


def rewrite_ssd(
    detector: SsdModel, options: QuantizationOptions, step: tf.Variable | None
) -> RewrittenDetector[SsdModel]:
    """Insert fake quantization into the network; see `quantization.rewriting.rewrite`."""
    return rewrite(detector, options, float_stages=FLOAT_STAGES, step=step)
