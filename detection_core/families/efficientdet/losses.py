"""Box coder and losses of google/automl's EfficientDet, including what they ignore and their normalizers."""

import dataclasses
import math

import tensorflow as tf

from detection_core.families.efficientdet.settings import EfficientDetSettings
from detection_core.ops import boxes as box_ops
from detection_core.ops import iou as iou_ops
from detection_core.parts.anchor_criterion import AnchorPredictions, classification_loss
from detection_core.parts.box_coders import EPSILON, FasterRcnnBoxCoder
from detection_core.parts.losses import SigmoidFocalLoss
from detection_core.parts.matchers import IGNORED, ArgMaxMatcher
from detection_core.parts.targets import AnchorTargetAssigner, class_factors
from detection_core.structures import GroundTruth


class EfficientDetBoxCoder(FasterRcnnBoxCoder):
    """Box coder without scale factors; sides are clamped to at least `EPSILON`, not increased by it."""

    def __init__(self) -> None:
        super().__init__(y_scale=1.0, x_scale=1.0, height_scale=1.0, width_scale=1.0)

    def encode(self, boxes: tf.Tensor, anchors: tf.Tensor, keypoints: tf.Tensor | None = None) -> tf.Tensor:
        """Encode boxes relative to anchors, float32 [..., A, 4], (ty, tx, th, tw); see `BoxCoder.encode`."""
        anchor_places, anchor_sides = tf.split(box_ops.to_centers(anchors), 2, axis=-1)
        places, sides = tf.split(box_ops.to_centers(boxes), 2, axis=-1)
        anchor_sides, sides = tf.maximum(anchor_sides, EPSILON), tf.maximum(sides, EPSILON)
        shifts = (places - anchor_places) / anchor_sides
        return tf.concat([shifts, tf.math.log(sides / anchor_sides)], axis=-1)


MATCH_THRESHOLD = 0.5
CLASSIFICATION_LOSS = "Loss/classification_loss"
LOCALIZATION_LOSS = "Loss/localization_loss"
IOU_LOSS = "Loss/iou_loss"
SEGMENTATION_LOSS = "Loss/segmentation_loss"


def target_assigner(num_classes: int, threshold: float = MATCH_THRESHOLD) -> AnchorTargetAssigner:
    """Return the target assigner: it matches anchors above the IoU threshold, and each object's best anchor.

    The background is not counted as a class.
    """
    matcher = ArgMaxMatcher(
        matched_threshold=threshold,
        unmatched_threshold=threshold,
        negatives_lower_than_unmatched=True,
        force_match_for_each_row=True,
    )
    return AnchorTargetAssigner(
        similarity=iou_ops.iou,
        matcher=matcher,
        box_coder=EfficientDetBoxCoder(),
        num_classes=num_classes,
        add_background_class=False,
    )


def huber_loss(prediction: tf.Tensor, target: tf.Tensor, delta: float) -> tf.Tensor:
    """Sum the Huber loss, linear from `delta` on, over all code elements, float32 [B, A, 4], with a target.

    A target is 0 without an object, and where an element happens to be 0.
    """
    error = tf.abs(prediction - target)
    quadratic = tf.minimum(error, delta)
    loss = 0.5 * quadratic**2 + delta * (error - quadratic)
    return tf.reduce_sum(tf.where(target != 0.0, loss, 0.0))


def box_overlap_loss(prediction: tf.Tensor, target: tf.Tensor, kind: str) -> tf.Tensor:
    """Return one minus the overlap of boxes [..., 4], float32 [...], 0 where the target has no area.

    The kinds are "iou", "giou" (https://arxiv.org/abs/1902.09630), "diou" and "ciou"
    (https://arxiv.org/abs/1911.08287).
    """
    low, high = tf.split(prediction, 2, axis=-1)
    target_low, target_high = tf.split(target, 2, axis=-1)
    sides, target_sides = tf.maximum(high - low, 0.0), tf.maximum(target_high - target_low, 0.0)
    shared = tf.maximum(tf.minimum(high, target_high) - tf.maximum(low, target_low), 0.0)
    intersection = _area(shared)
    union = _area(sides) + _area(target_sides) - intersection
    overlap = tf.math.divide_no_nan(intersection, union)
    enclosing = tf.maximum(tf.maximum(high, target_high) - tf.minimum(low, target_low), 0.0)
    if kind == "giou":
        area = _area(enclosing)
        overlap -= tf.math.divide_no_nan(area - union, area)
    if kind in ("diou", "ciou"):
        shift = (low + high - target_low - target_high) / 2.0
        diagonal = tf.reduce_sum(enclosing**2, axis=-1)
        distance = tf.math.divide_no_nan(tf.reduce_sum(shift**2, axis=-1), diagonal)
        if kind == "ciou":
            angle, other = (
                tf.atan(tf.math.divide_no_nan(each[..., 1], each[..., 0])) for each in (sides, target_sides)
            )
            unlike = 4.0 * ((other - angle) / math.pi) ** 2  # of the aspect ratios, 0..1
            distance += tf.math.divide_no_nan(unlike**2, 1.0 - overlap + unlike)
        overlap -= distance
    return tf.where(_area(target_sides) > 0.0, 1.0 - overlap, 0.0)


def _area(sides: tf.Tensor) -> tf.Tensor:
    return tf.reduce_prod(sides, axis=-1)


def moving_normalizer() -> tf.Variable:
    """Create the moving average of the loss normalizer; each replica has a separate one."""
    return tf.Variable(
        0.0,
        trainable=False,
        name="moving_normalizer",
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.MEAN,
    )


def steadied(normalizer: tf.Tensor, momentum: float, positives: tf.Variable | None) -> tf.Tensor:
    """Return the smoothed loss normalizer of the replica's batch, float32 [].

    A momentum above 0 is that of a moving average, kept in `positives` from `moving_normalizer`. Below 0, the
    mean over the replicas is taken.
    """
    context = tf.distribute.get_replica_context()
    if momentum < 0 and context is not None:
        return context.all_reduce("MEAN", normalizer)
    if momentum > 0 and positives is not None:
        normalizer = positives * momentum + normalizer * (1.0 - momentum)
        positives.assign(normalizer)
    return normalizer


@dataclasses.dataclass(frozen=True)
class DetectionLosses:
    """The losses of boxes and classes, for the settings of a detector."""

    settings: EfficientDetSettings

    def __call__(
        self, predictions: AnchorPredictions, truth: GroundTruth, positives: tf.Variable | None = None
    ) -> dict[str, tf.Tensor]:
        """Return weighted losses, name to float32 scalar, of boxes in pixels of the network's input.

        `positives` is the moving average of the loss normalizer; None: the batch's normalizer is used.
        """
        settings = self.settings
        targets = target_assigner(settings.num_classes).assign(predictions.anchors, truth)
        matched = tf.cast(targets.matched >= 0, tf.float32)
        normalizer = steadied(tf.reduce_sum(matched) + 1.0, settings.positives_momentum, positives)
        focal = SigmoidFocalLoss(
            gamma=settings.gamma, alpha=settings.alpha, label_smoothing=settings.label_smoothing
        )
        counted = tf.cast(targets.matched != IGNORED, tf.float32) * class_factors(truth, targets.matched)
        targets = targets._replace(class_weights=counted[..., tf.newaxis])
        class_losses = classification_loss(focal, predictions.class_logits, targets)
        found = {CLASSIFICATION_LOSS: tf.reduce_sum(class_losses) / normalizer}
        codes, box_targets = predictions.box_codes, targets.box_targets
        if settings.box_loss_weight:
            loss = huber_loss(codes, box_targets, settings.delta) / (4.0 * normalizer)
            found[LOCALIZATION_LOSS] = settings.box_loss_weight * loss
        if settings.iou_loss_type:
            loss = self._overlap_loss(codes, box_targets, predictions.anchors) / (4.0 * normalizer)
            found[IOU_LOSS] = settings.iou_loss_weight * loss
        return found

    def _overlap_loss(self, codes: tf.Tensor, targets: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
        """Compare decoded boxes, with coordinates set to 0 where the code's target is 0."""
        coder, mask = EfficientDetBoxCoder(), tf.cast(targets != 0.0, tf.float32)
        boxes, target_boxes = coder.decode(codes, anchors) * mask, coder.decode(targets, anchors) * mask
        return tf.reduce_sum(box_overlap_loss(boxes, target_boxes, self.settings.iou_loss_type))
