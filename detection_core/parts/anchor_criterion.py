"""The training criterion of anchor-based detectors."""

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from detection_core.parts.losses import AnchorLosses, ClassificationLoss, ColumnLoss, replace_nan_targets
from detection_core.parts.targets import AnchorTargetAssigner, AnchorTargets
from detection_core.structures import GroundTruth


class AnchorPredictions(NamedTuple):
    """Predictions for every anchor, by a one-stage detector or a region proposal network.

    Attributes:
        box_codes: float32 [B, A, code size], encoded relative to `anchors` by the assigner's box coder.
        class_logits: float32 [B, A, C + 1], background first.
        anchors: float32 [A, 4] shared by all images, or [B, A, 4] per image, such as proposals. They are
            normalised to the (padded) network input, not clipped; the caller stops proposals' gradient.
    """

    box_codes: tf.Tensor
    class_logits: tf.Tensor
    anchors: tf.Tensor

    def anchors_at(self, places: tf.Tensor) -> tf.Tensor:
        """Gather anchors by their indices in each image, int32 [B, N]; returns float32 [B, N, 4]."""
        anchors = self.anchors[0] if tuple(self.anchors.shape[:-2]) == (1,) else self.anchors
        return tf.gather(anchors, places, batch_dims=len(anchors.shape) - 2)


class CriterionLosses(NamedTuple):
    """Weighted and normalised losses of a batch, float32 []."""

    localization: tf.Tensor
    classification: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorCriterion:
    """Computes the losses of predictions against the targets of their anchors.

    Attributes:
        assigner: computes the targets.
        losses: the losses per anchor, their weights, and the selection of anchors that count.
        normalize_by_matches: whether to divide by the batch's number of positive anchors, at least one.
        normalize_by_code_size: whether to divide the localisation loss by the box code size too.
    """

    assigner: AnchorTargetAssigner
    losses: AnchorLosses
    normalize_by_matches: bool
    normalize_by_code_size: bool

    def __call__(self, predictions: AnchorPredictions, truth: GroundTruth) -> CriterionLosses:
        """Compute the losses of raw predictions; boxes of the truth are normalised to the network input."""
        targets = self._sampled(self.assigner.assign(predictions.anchors, truth))
        localization = self._localization(predictions, targets)
        classification = classification_loss(self.losses.classification, predictions.class_logits, targets)
        if self.losses.hard_example_miner is None:
            box_sum, class_sum = tf.reduce_sum(localization), tf.reduce_sum(classification)
        else:
            boxes = self._decode(predictions.box_codes, predictions.anchors)
            box_sum, class_sum = self.losses.hard_example_miner.mine(
                localization, classification, boxes, targets.matched
            )
        normalizer = tf.constant(1.0)
        if self.normalize_by_matches:
            normalizer = tf.maximum(tf.reduce_sum(targets.box_weights), 1.0)
        code_size = float(self.assigner.box_coder.code_size) if self.normalize_by_code_size else 1.0
        return CriterionLosses(
            localization=self.losses.localization_weight * box_sum / (normalizer * code_size),
            classification=self.losses.classification_weight * class_sum / normalizer,
        )

    def _sampled(self, targets: AnchorTargets) -> AnchorTargets:
        sampler = self.losses.random_example_sampler
        if sampler is None:
            return targets
        candidates = tf.reduce_max(targets.class_weights, axis=-1) > 0.0
        drawn = tf.cast(sampler.sample(candidates, targets.matched >= 0), tf.float32)
        return targets._replace(
            class_weights=targets.class_weights * drawn[..., tf.newaxis],
            box_weights=targets.box_weights * drawn,
        )

    def _localization(self, predictions: AnchorPredictions, targets: AnchorTargets) -> tf.Tensor:
        """Loss of each anchor's box, float32 [B, A]."""
        predicted, target = predictions.box_codes, targets.box_targets
        if self.losses.localization.compares_boxes:
            predicted, target = (self._decode(codes, predictions.anchors) for codes in (predicted, target))
        elif self.assigner.box_coder.num_keypoints:
            target = replace_nan_targets(predicted, target)  # NaN marks keypoints that are not visible
        return self.losses.localization(predicted, target, targets.box_weights)

    def _decode(self, codes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        return self.assigner.box_coder.decode(codes, anchors)


def classification_loss(loss: ClassificationLoss, logits: tf.Tensor, targets: AnchorTargets) -> tf.Tensor:
    """Compute the loss of anchors' classes, float32 [B, A], for logits [B, A, K], by column if possible."""
    if isinstance(loss, ColumnLoss) and targets.class_columns is not None:
        return loss.of_columns(logits, targets.class_columns, targets.class_weights[..., 0])
    found = loss(logits, targets.class_targets, targets.class_weights)
    return tf.reduce_sum(found, axis=-1) if len(found.shape) == 3 else found
