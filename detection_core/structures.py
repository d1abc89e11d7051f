"""The named types in which tensors travel through the core.

Letters: B batch, G padded ground truth, C classes without background, D detections, K keypoints, H W pixels.
Boxes are float32 [ymin, xmin, ymax, xmax], normalised to the true image, unless a name says otherwise
(`_px`). Classes are int32 in [0, C): the label map's id minus one. Data that crosses tf.data, tf.function,
tf.distribute or a SavedModel is a NamedTuple of tensors without None fields: an unused field has a zero
dimension. Host-side data is a frozen dataclass of numpy arrays.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

FIRST_CLASS = 1
"""The label map's id of class 0."""


class GroundTruth(NamedTuple):
    """Objects of an image, or of a batch when every field has a leading B.

    Attributes:
        boxes: float32 [G, 4], normalised.
        classes: int32 [G], in [0, C); 0 in padded rows.
        weights: float32 [G], weight of the object in the losses; 0 in padded rows.
        is_crowd: bool [G], a COCO crowd region, which is neither a positive nor a false positive.
        area: float32 [G], object area in pixels of the original image; 0 where unknown.
        valid: bool [G], False in padded rows.
        masks: uint8 [G, h, w]; h = w = 0 where masks are not used.
        class_scores: float32 [G, S], how much the object is of each class, where that is not `classes` alone;
            S is 0 where soft labels are not used, else C, or C + 1 with the background first.
        confidences: float32 [G], whether the object is of its class: above 0 verified as present, below 0
            verified as absent, 0 not verified; 1 where records have no confidence.
        keypoints: float32 [G, K, 2], (y, x) in the frame of the boxes, NaN where not in the image; K is 0
            where keypoints are not used.
        keypoint_weights: float32 [G, K], weight of each keypoint in the losses; 0 where it is not visible.
    """

    boxes: tf.Tensor
    classes: tf.Tensor
    weights: tf.Tensor
    is_crowd: tf.Tensor
    area: tf.Tensor
    valid: tf.Tensor
    masks: tf.Tensor
    class_scores: tf.Tensor
    confidences: tf.Tensor
    keypoints: tf.Tensor
    keypoint_weights: tf.Tensor


class Sample(NamedTuple):
    """One decoded example.

    Attributes:
        image: uint8 [H, W, 3], RGB (float32 0..255 between augmentation steps).
        truth: unbatched `GroundTruth`.
        source_id: string [].
    """

    image: tf.Tensor
    truth: GroundTruth
    source_id: tf.Tensor


class Images(NamedTuple):
    """A batch of resized images.

    Attributes:
        pixels: float32 [B, H, W, 3], RGB 0..255, resized and padded, not yet normalised for a backbone.
        true_sizes: int32 [B, 2], rows and columns that hold the image, the rest is padding.
        original_sizes: int32 [B, 2], rows and columns of the image before resizing.
        source_ids: string [B].
    """

    pixels: tf.Tensor
    true_sizes: tf.Tensor
    original_sizes: tf.Tensor
    source_ids: tf.Tensor


class Batch(NamedTuple):
    """What a dataset yields, and nothing else."""

    images: Images
    truth: GroundTruth


class Detections(NamedTuple):
    """Post-processed detections, sorted by falling score and zero-padded to D.

    Attributes:
        boxes: float32 [B, D, 4], normalised to the true image, clipped to it.
        scores: float32 [B, D].
        classes: int32 [B, D], in [0, C).
        count: int32 [B], how many of the D rows are detections.
        masks: float32 [B, D, h, w], in the frame of the box, 0..1; h = w = 0 where there are none.
        keypoints: float32 [B, D, K, 2], (y, x) normalised to the true image; K is 0 where there are none.
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    classes: tf.Tensor
    count: tf.Tensor
    masks: tf.Tensor
    keypoints: tf.Tensor


def box_detections(boxes: tf.Tensor, scores: tf.Tensor, classes: tf.Tensor, count: tf.Tensor) -> Detections:
    """Make the detections of a detector of boxes alone; arguments as the fields of `Detections`."""
    rows = tf.shape(scores)
    return Detections(
        boxes=boxes,
        scores=scores,
        classes=classes,
        count=count,
        masks=tf.zeros([rows[0], rows[1], 0, 0]),
        keypoints=tf.zeros([rows[0], rows[1], 0, 2]),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageDetections:
    """Detections of one image on the host, without padding.

    Attributes:
        source_id: id of the image, as in its record.
        boxes: float32 [D, 4], normalised.
        scores: float32 [D], falling.
        classes: int32 [D], in [0, C).
    """

    source_id: str
    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageTruth:
    """Ground truth of one image on the host, without padding.

    Attributes:
        source_id: id of the image, as in its record.
        height: rows of the original image, pixels.
        width: columns of the original image, pixels.
        boxes: float32 [G, 4], normalised.
        classes: int32 [G], in [0, C).
        is_crowd: bool [G].
        area: float32 [G], pixels of the original image; 0 where unknown (then the box's own area counts).
        difficult: bool [G], Pascal VOC's flag.
        group_of: bool [G], Open Images' flag: one box around several objects.
        labelled: int32 [L], classes in [0, C) of the image's own labels: present, or known to be absent.
    """

    source_id: str
    height: int
    width: int
    boxes: np.ndarray
    classes: np.ndarray
    is_crowd: np.ndarray
    area: np.ndarray
    difficult: np.ndarray
    group_of: np.ndarray
    labelled: np.ndarray
