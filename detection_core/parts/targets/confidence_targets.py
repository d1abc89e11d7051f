"""Targets from image-level verification, as in Open Images (https://arxiv.org/abs/1811.00982)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from detection_core.parts.targets.anchor_targets import (
    AnchorTargetAssigner,
    AnchorTargets,
    gather_matched,
)
from detection_core.structures import GroundTruth


class ConfidenceTargetAssigner(AnchorTargetAssigner):
    """Gives verified classes full weight and all others a small one.

    A confidence above 0 verifies that the object is of the class, below 0 that it is not; both count in full.
    At 0 the class was not verified and counts as a negative of small weight.
    """

    def __init__(self, *, implicit_class_weight: float = 1.0, **parts: Any) -> None:
        """Create an assigner from its parts.

        Args:
            implicit_class_weight: weight of a class that was not verified.
            parts: similarity, matcher, box_coder, num_classes and add_background_class, as
                `AnchorTargetAssigner` takes them.
        """
        super().__init__(**parts)
        self._implicit_class_weight = implicit_class_weight

    def assign(self, anchors: tf.Tensor, truth: GroundTruth) -> AnchorTargets:
        """Compute the targets of a batch; anchors are as for `match`.

        An object without class scores was verified for its own class only.

        Returns:
            The targets.
        """
        if truth.class_scores.shape[-1] != 0:
            scores = truth.class_scores[..., -self.num_classes :]
        else:
            scores = tf.one_hot(truth.classes, self.num_classes, dtype=tf.float32)
        confidences = scores * truth.confidences[..., tf.newaxis]
        return self.assign_confidences(anchors, truth, confidences)

    def assign_confidences(
        self, anchors: tf.Tensor, truth: GroundTruth, confidences: tf.Tensor
    ) -> AnchorTargets:
        """Compute the targets of a batch.

        Args:
            anchors: as for `match`.
            truth: ground truth of a batch; its classes are not used.
            confidences: float32 [B, G, C]; 1: verified present, -1: verified absent, 0: not verified.

        Returns:
            The targets; class_weights is float32 [B, A, C + 1].
        """
        matched = tf.stop_gradient(self.match(anchors, truth))
        matched_confidences = gather_matched(confidences, matched, matched >= 0)
        targets = tf.cast(matched_confidences > 0.0, tf.float32)
        positive = tf.reduce_max(targets, axis=-1, keepdims=True)
        weights = tf.where(matched_confidences != 0.0, 1.0, self._implicit_class_weight)
        if self.target_columns > self.num_classes:
            # Positives count in the background column; unmatched anchors do not, as they were not verified.
            targets = tf.concat([1.0 - positive, targets], axis=-1)
            weights = tf.concat(
                [tf.where(positive > 0.0, 1.0, self._implicit_class_weight), weights], axis=-1
            )
        box_weights = positive[..., 0]
        return AnchorTargets(
            class_targets=targets,
            class_weights=weights,
            box_targets=self.box_targets(anchors, truth, matched),
            box_weights=box_weights,
            matched=matched,
        )
