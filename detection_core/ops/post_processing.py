"""Options of post-processing: class logits to scores, and scores to detections."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from detection_core.ops.nms import NmsOptions

Elementwise = Callable[[tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreConverter:
    """Class logits to scores: prepare, scale, activate, calibrate.

    Attributes:
        activation: logits to scores, over the last axis where classes compete.
        logit_scale: logits are divided by it.
        prepare: applied to the logits first; None does nothing.
        calibrate: applied to the scores; None does nothing.
    """

    activation: Elementwise
    logit_scale: float = 1.0
    prepare: Elementwise | None = None
    calibrate: Elementwise | None = None

    def __call__(self, logits: tf.Tensor) -> tf.Tensor:
        """Convert logits.

        Args:
            logits: float32 [B, A, C + 1], with the background if the model has one.

        Returns:
            float32 [B, A, C + 1].
        """
        if self.prepare is not None:
            logits = self.prepare(logits)
        scores = self.activation(logits / self.logit_scale)
        return scores if self.calibrate is None else self.calibrate(scores)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PostProcessing:
    """How a detector turns its raw heads into detections.

    Attributes:
        score_converter: class logits to scores.
        nms: how to drop duplicate detections.
    """

    score_converter: ScoreConverter
    nms: NmsOptions
