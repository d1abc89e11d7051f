"""The first stage's results: anchors, proposals and regions of a feature map."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from detection_core.ops import boxes as box_ops
from detection_core.ops.nms import NmsOptions, multiclass_nms
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.parts.anchors.base import AnchorGenerator
from detection_core.parts.box_coders.base import BoxCoder

_IMAGE = (0.0, 0.0, 1.0, 1.0)


class Proposals(NamedTuple):
    """Regions that may hold objects, padded with zeros to P.

    Attributes:
        boxes: float32 [B, P, 4], normalised to the (padded) network input, clipped to the true image.
        scores: float32 [B, P].
        count: int32 [B], number of the P rows that are proposals.
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    count: tf.Tensor

    @property
    def filled(self) -> tf.Tensor:
        """Return which rows are proposals, bool [B, P]."""
        return tf.sequence_mask(self.count, tf.shape(self.scores)[1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProposalOptions:
    """How anchors become proposals.

    Attributes:
        generator: of the anchors.
        box_coder: decodes the network's box codes.
        nms: suppression of decoded anchors.
        clip_anchors: whether training clips anchors that cross the border, rather than dropping them.
    """

    generator: AnchorGenerator
    box_coder: BoxCoder
    nms: NmsOptions
    clip_anchors: bool


def lay_anchors(
    generator: AnchorGenerator, map_shape: tuple[tf.Tensor, tf.Tensor], size: tuple[tf.Tensor, tf.Tensor]
) -> tf.Tensor:
    """Return the anchors of a feature map, float32 [A, 4], normalised to the network's input, not clipped.

    `map_shape` and `size` are rows and columns of the map and of the input, numbers or int32 scalars.
    """
    (anchors,) = generator.generate([map_shape], *size)
    if generator.normalised:
        return anchors
    rows, columns = (tf.cast(side, tf.float32) for side in size)
    return box_ops.scale(anchors, 1.0 / rows, 1.0 / columns)


def clip_anchors(predictions: AnchorPredictions) -> AnchorPredictions:
    """Clip the anchors to the image."""
    return predictions._replace(anchors=box_ops.clip(predictions.anchors, tf.constant(_IMAGE)))


def drop_crossing_anchors(
    predictions: AnchorPredictions, size: tuple[tf.Tensor, tf.Tensor]
) -> AnchorPredictions:
    """Drop the anchors that cross the border of the image, and their predictions.

    `size` is that of the input in pixels, in which the border is exact.
    """
    rows, columns = (tf.cast(side, tf.float32) for side in size)
    ymin, xmin, ymax, xmax = tf.unstack(predictions.anchors, axis=-1)
    # Pixels are compared: rounding must not drop an anchor that ends at the border.
    slack = 1e-3
    inside = (ymin * rows >= -slack) & (xmin * columns >= -slack)
    inside &= ((ymax - 1.0) * rows <= slack) & ((xmax - 1.0) * columns <= slack)
    kept = tf.where(inside)[:, 0]
    return AnchorPredictions(
        box_codes=tf.gather(predictions.box_codes, kept, axis=1),
        class_logits=tf.gather(predictions.class_logits, kept, axis=1),
        anchors=tf.gather(predictions.anchors, kept),
    )


def propose(predictions: AnchorPredictions, options: ProposalOptions, window: tf.Tensor) -> Proposals:
    """Decode the anchors' boxes, suppress duplicates, and clip to the true images, windows float32 [B, 4]."""
    boxes = options.box_coder.decode(predictions.box_codes, predictions.anchors)
    scores = tf.nn.softmax(predictions.class_logits)[..., 1:]
    found = multiclass_nms(boxes, scores, options.nms, window)
    return Proposals(boxes=found.boxes, scores=found.scores, count=found.count)


def take_sampled(proposals: Proposals, sampled: tf.Tensor, size: int) -> Proposals:
    """Keep the sampled proposals, bool [B, P], in their order, and pad or cut them to `size` rows."""
    missing = max(size - int(proposals.scores.shape[1]), 0)
    padded = tf.pad(sampled, [[0, 0], [0, missing]])
    # Equal values stay in their order.
    order = tf.math.top_k(tf.cast(padded, tf.int32), size).indices
    count = tf.minimum(tf.reduce_sum(tf.cast(sampled, tf.int32), axis=1), size)
    kept = tf.sequence_mask(count, size)
    boxes = tf.gather(tf.pad(proposals.boxes, [[0, 0], [0, missing], [0, 0]]), order, batch_dims=1)
    scores = tf.gather(tf.pad(proposals.scores, [[0, 0], [0, missing]]), order, batch_dims=1)
    return Proposals(
        boxes=tf.where(kept[..., tf.newaxis], boxes, 0.0), scores=tf.where(kept, scores, 0.0), count=count
    )


def crop_regions(features: tf.Tensor, boxes: tf.Tensor, size: int) -> tf.Tensor:
    """Sample square regions of feature maps, bilinearly; what lies outside of the map is 0.

    Args:
        features: [B, h, w, K].
        boxes: float32 [B, P, 4], normalised to the map.
        size: rows and columns of a region. Its corners are sampled at the box's corners.

    Returns:
        float32 [B * P, size, size, K].
    """
    batch, number = tf.unstack(tf.shape(boxes)[:2])
    image = tf.repeat(tf.range(batch), number)
    return tf.image.crop_and_resize(
        tf.cast(features, tf.float32), tf.reshape(boxes, [-1, 4]), image, [size, size]
    )
