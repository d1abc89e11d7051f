"""What the stages of a detector predict, and how a SavedModel names it."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from detection_core.families.faster_rcnn.criterion import RegionPredictions
from detection_core.families.faster_rcnn.proposals import Proposals
from detection_core.ops import boxes as box_ops
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.structures import Detections


class FirstStage(NamedTuple):
    """The region proposal network's outputs.

    Attributes:
        features: [B, h, w, K], from which regions are cropped.
        predictions: of every anchor; the anchors are not clipped.
        size: rows and columns of the network's input, numbers or int32 scalars.
    """

    features: tf.Tensor
    predictions: AnchorPredictions
    size: tuple[tf.Tensor, tf.Tensor]


class Stages(NamedTuple):
    """What the first two stages found.

    Attributes:
        first: of the first stage, its anchors clipped.
        proposals: the proposals.
        region_features: float32 [B * P, s, s, K]; None with one stage.
        regions: predictions for the proposals, without masks; None with one stage.
    """

    first: FirstStage
    proposals: Proposals
    region_features: tf.Tensor | None
    regions: RegionPredictions | None


class RawDetections(NamedTuple):
    """Predictions for the proposals before suppression.

    Attributes:
        boxes: float32 [B, P, Q, 4], decoded, normalised to the network's input.
        scores: float32 [B, P, C + 1], converted, background first.
    """

    boxes: tf.Tensor
    scores: tf.Tensor


def true_windows(true_sizes: tf.Tensor, size: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    """Return the windows of the true images in the network's input, normalised, float32 [B, 4]."""
    fraction = tf.cast(true_sizes, tf.float32) / tf.cast(tf.stack(size), tf.float32)
    return tf.concat([tf.zeros_like(fraction), fraction], axis=-1)


def stage_outputs(
    found: Stages,
    raw: RawDetections | None,
    detections: Detections,
    indices: tf.Tensor,
    true_sizes: tf.Tensor,
) -> dict[str, tf.Tensor]:
    """Name what the detections were made from.

    Args:
        found: the predictions.
        raw: of the second stage; None with one stage.
        detections: after suppression.
        indices: int32 [B, D], the proposal of each detection.
        true_sizes: int32 [B, 2], rows and columns of the input that hold the image.

    Returns:
        All float32. With one stage nothing. Else detection_anchor_indices [B, D],
        detection_multiclass_scores [B, D, C + 1], raw_detection_boxes [B, P, 4], the box of a proposal's best
        class in the true image, and raw_detection_scores [B, P, C + 1].
    """
    if raw is None:
        return {}
    boxes = raw.boxes[:, :, 0]
    if raw.boxes.shape[2] != 1:
        best = tf.argmax(raw.scores[:, :, 1:], axis=-1, output_type=tf.int32)
        boxes = tf.gather(raw.boxes, best, axis=2, batch_dims=2)
    window = true_windows(true_sizes, found.first.size)[:, tf.newaxis]
    filled = tf.sequence_mask(detections.count, tf.shape(indices)[1])[..., tf.newaxis]
    return {
        "detection_anchor_indices": tf.cast(indices, tf.float32),
        "detection_multiclass_scores": tf.where(filled, tf.gather(raw.scores, indices, batch_dims=1), 0.0),
        "raw_detection_boxes": box_ops.change_frame(box_ops.clip(boxes, window), window),
        "raw_detection_scores": raw.scores,
    }


def all_stage_outputs(found: Stages) -> dict[str, tf.Tensor]:
    """Name all predictions, as the Object Detection API's exported models with three stages do.

    Returns:
        All float32, A anchors, P proposals, Q boxes of a proposal: image_shape [4], rpn_box_encodings
        [B, A, 4], rpn_objectness_predictions_with_background [B, A, 2], anchors [A, 4] and proposal_boxes
        [B, P, 4] in pixels of the input, proposal_boxes_normalized and final_anchors [B, P, 4],
        num_proposals [B], refined_box_encodings [B * P, Q, 4], class_predictions_with_background
        [B * P, C + 1] and box_classifier_features [B * P, s, s, K].
    """
    assert found.regions is not None and found.region_features is not None
    first, proposals, regions = found.first, found.proposals, found.regions
    rows, columns = first.size
    outputs = {
        "image_shape": tf.stack([tf.shape(proposals.boxes)[0], rows, columns, 3]),
        "rpn_box_encodings": first.predictions.box_codes,
        "rpn_objectness_predictions_with_background": first.predictions.class_logits,
        "anchors": box_ops.scale(first.predictions.anchors, rows, columns),
        "proposal_boxes": box_ops.scale(proposals.boxes, rows, columns),
        "proposal_boxes_normalized": proposals.boxes,
        "final_anchors": proposals.boxes,
        "num_proposals": proposals.count,
        "refined_box_encodings": tf.reshape(regions.box_codes, [-1, *regions.box_codes.shape[2:]]),
        "class_predictions_with_background": tf.reshape(
            regions.class_logits, [-1, regions.class_logits.shape[2]]
        ),
        "box_classifier_features": found.region_features,
    }
    return {name: tf.cast(value, tf.float32) for name, value in outputs.items()}
