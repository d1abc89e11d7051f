"""Quantize EfficientDet's network; post-processing stays in float."""

from __future__ import annotations

import tensorflow as tf

from detection_core.detectors.quantization import QuantizationOptions
from detection_core.families.efficientdet.model import EfficientDetModel
from detection_core.quantization.rewriting import FLOAT_STAGES, RewrittenDetector, rewrite


def rewrite_efficientdet(
    detector: EfficientDetModel, options: QuantizationOptions, step: tf.Variable | None
) -> RewrittenDetector[EfficientDetModel]:
    """Insert fake quantization into the network; see `quantization.rewriting.rewrite`."""
    return rewrite(detector, options, float_stages=FLOAT_STAGES, step=step)
