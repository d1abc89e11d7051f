"""The losses of the two stages and of masks.

Faster R-CNN, https://arxiv.org/abs/1506.01497; Mask R-CNN, https://arxiv.org/abs/1703.06870.
"""

import dataclasses

import tensorflow as tf

from detection_core.families.faster_rcnn.stages import Proposals, RegionPredictions, take_sampled
from detection_core.parts.anchor_criterion import AnchorPredictions, classification_loss
from detection_core.parts.losses import ClassificationLoss, LocalizationLoss
from detection_core.parts.samplers import BalancedSampler, HardExampleMiner
from detection_core.parts.targets import AnchorTargetAssigner, AnchorTargets
from detection_core.structures import GroundTruth


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledCriterion:
    """The parts of a stage's losses.

    Attributes:
        assigner: computes the targets of anchors or proposals.
        sampler: draws those that count.
        sample_size: how many to draw from each image.
        classification: loss of class logits.
        localization: loss of box codes.
        classification_weight: factor of its loss.
        localization_weight: factor of its loss.
    """

    assigner: AnchorTargetAssigner
    sampler: BalancedSampler
    sample_size: int
    classification: ClassificationLoss
    localization: LocalizationLoss
    classification_weight: float
    localization_weight: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class FirstStageCriterion(SampledCriterion):
    """The losses of the region proposal network, which has one class, on a sample of its anchors."""

    def __call__(self, predictions: AnchorPredictions, truth: GroundTruth) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the localisation and the objectness loss, float32 []; boxes are normalised to the input."""
        objects = truth._replace(
            classes=tf.zeros_like(truth.classes), class_scores=tf.zeros_like(truth.class_scores[..., :0])
        )
        targets = self.assigner.assign(predictions.anchors, objects)
        candidates = targets.class_weights[..., 0] > 0.0
        drawn = self.sampler.sample(candidates, targets.matched >= 0, self.sample_size)
        counted = tf.cast(drawn, tf.float32)
        localization = self.localization(
            predictions.box_codes, targets.box_targets, targets.box_weights * counted
        )
        # A sampled anchor counts in full, whatever the weight of its object.
        equal = targets._replace(class_weights=counted[..., tf.newaxis])
        objectness = classification_loss(self.classification, predictions.class_logits, equal)
        number = tf.maximum(tf.reduce_sum(counted, axis=1), 1.0)
        return (
            self.localization_weight * tf.reduce_mean(tf.reduce_sum(localization, axis=1) / number),
            self.classification_weight * tf.reduce_mean(tf.reduce_sum(objectness, axis=1) / number),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecondStageCriterion(SampledCriterion):
    """The losses of the second stage on a sample of the proposals, and of masks.

    Attributes:
        mask_weight: factor of the mask loss.
        miner: selects the hardest proposals, in place of the sampler; None: all count.
    """

    mask_weight: float
    miner: HardExampleMiner | None

    def sample(self, proposals: Proposals, truth: GroundTruth) -> Proposals:
        """Draw the proposals to train on, at most `sample_size` of each image, in their order."""
        targets = self.assigner.assign(proposals.boxes, truth)
        candidates = (targets.class_weights[..., 0] > 0.0) & proposals.filled
        # Where all proposals are ignored, they are drawn all the same, and count nothing in the losses.
        some = tf.reduce_any(candidates, axis=1, keepdims=True)
        candidates = tf.where(some, candidates, proposals.filled)
        sampled = self.sampler.sample(candidates, _class_of(targets) > 0, self.sample_size)
        return take_sampled(proposals, sampled, self.sample_size)

    def __call__(self, predictions: RegionPredictions, truth: GroundTruth) -> dict[str, tf.Tensor]:
        """Return `localization` and `classification`, and with masks `mask`, float32 []."""
        proposals = predictions.proposals
        targets = self.assigner.assign(proposals.boxes, truth)
        filled = tf.cast(proposals.filled, tf.float32)
        images = tf.cast(tf.shape(filled)[0], tf.float32)
        share = filled / (images * tf.maximum(tf.reduce_sum(filled, axis=1, keepdims=True), 1.0))
        codes = _of_class(predictions.box_codes, targets)
        localization = self.localization(codes, targets.box_targets, targets.box_weights) * share
        classes = classification_loss(self.classification, predictions.class_logits, targets) * share
        if self.miner is None:
            box_sum, class_sum = tf.reduce_sum(localization), tf.reduce_sum(classes)
        else:
            box_sum, class_sum = self.miner.mine(localization, classes, proposals.boxes, targets.matched)
        losses = {
            "localization": self.localization_weight * box_sum,
            "classification": self.classification_weight * class_sum,
        }
        if 0 not in predictions.mask_logits.shape[2:4]:
            losses["mask"] = self.mask_weight * _mask_loss(predictions, targets, truth)
        return losses


def _class_of(targets: AnchorTargets) -> tf.Tensor:
    """Return the column of each proposal's class target, int32 [B, P]; 0 is the background."""
    return tf.argmax(targets.class_targets, axis=-1, output_type=tf.int32)


def _of_class(codes: tf.Tensor, targets: AnchorTargets) -> tf.Tensor:
    """Select the box codes of each proposal's class, float32 [B, P, 4]; zeros for the background."""
    if codes.shape[2] == 1:
        return codes[:, :, 0]
    column = _class_of(targets)
    selected = tf.gather(codes, tf.maximum(column - 1, 0), axis=2, batch_dims=2)
    return tf.where(column[..., tf.newaxis] > 0, selected, 0.0)


def masks_of_classes(logits: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Select the mask logits, [B, N, h, w, M], of each region's class in [0, C), int32 [B, N].

    Returns:
        float32 [B, N, h, w]; the only mask of a region if all classes share it (M = 1).
    """
    if logits.shape[-1] == 1:
        return logits[..., 0]
    return tf.gather(tf.transpose(logits, [0, 1, 4, 2, 3]), classes, axis=2, batch_dims=2)


def _mask_loss(predictions: RegionPredictions, targets: AnchorTargets, truth: GroundTruth) -> tf.Tensor:
    """Compute the sigmoid cross entropy of masks, the mean over the batch's proposals with an object."""
    logits, boxes = predictions.mask_logits, predictions.proposals.boxes
    batch, number = tf.unstack(tf.shape(boxes)[:2])
    rows, columns = logits.shape[2:4]
    logits = masks_of_classes(logits, tf.maximum(_class_of(targets) - 1, 0))
    objects = tf.shape(truth.masks)[1]
    matched = tf.maximum(targets.matched, 0) + objects * tf.range(batch)[:, tf.newaxis]
    masks = tf.reshape(truth.masks, tf.concat([[-1], tf.shape(truth.masks)[2:], [1]], axis=0))
    wanted = tf.image.crop_and_resize(
        masks, tf.reshape(boxes, [-1, 4]), tf.reshape(matched, [-1]), [rows, columns]
    )
    wanted = tf.reshape(wanted, [batch, number, rows, columns])
    loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits)
    weights = targets.box_weights * tf.cast(predictions.proposals.filled, tf.float32)
    # At least one pixel counts, as in the Object Detection API.
    total = tf.maximum(tf.reduce_sum(weights), 1.0 / (rows * columns))
    return tf.reduce_sum(tf.reduce_mean(loss, axis=[2, 3]) * weights) / total
