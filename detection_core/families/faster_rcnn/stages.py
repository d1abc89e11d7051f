"""What the stages of a detector find: anchors, proposals, regions, and how a SavedModel names it."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
import tf_keras

from detection_core.ops import boxes as box_ops
from detection_core.ops.nms import NmsOptions, multiclass_nms
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.parts.anchors.generators import AnchorGenerator, to_unit
from detection_core.parts.box_coders import BoxCoder
from detection_core.structures import Detections

_IMAGE = (0.0, 0.0, 1.0, 1.0)
REGIONS_AT_ONCE = 40
"""Most regions that are cropped at a time for inference."""


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
    generator: AnchorGenerator,
    map_shapes: Sequence[tuple[tf.Tensor, tf.Tensor]],
    size: tuple[tf.Tensor, tf.Tensor],
) -> tf.Tensor:
    """Return the anchors of the feature maps, float32 [A, 4], normalised to the input, not clipped.

    `map_shapes` and `size` are rows and columns of the maps and of the input, numbers or int32 scalars.
    """
    if generator.normalised:
        anchors = generator.generate(map_shapes, *size)
    else:
        # Anchors in pixels start at half a stride, also if a stride does not divide the input.
        anchors = to_unit(generator.generate(map_shapes, 1, 1), *size)
    return tf.concat(anchors, axis=0)


def clip_anchors(predictions: AnchorPredictions) -> AnchorPredictions:
    """Clip the anchors to the image."""
    return predictions._replace(anchors=box_ops.clip(predictions.anchors, tf.constant(_IMAGE)))


def drop_crossing_anchors(
    predictions: AnchorPredictions, size: tuple[tf.Tensor, tf.Tensor]
) -> AnchorPredictions:
    """Drop the anchors that cross the border of the image, and their predictions.

    If all cross it, as in a small image, all are kept and clipped. The Object Detection API fails there.
    `size` is that of the input in pixels, in which the border is exact.
    """
    rows, columns = (tf.cast(side, tf.float32) for side in size)
    ymin, xmin, ymax, xmax = tf.unstack(predictions.anchors, axis=-1)
    # Pixels are compared: rounding must not drop an anchor that ends at the border.
    slack = 1e-3
    inside = (ymin * rows >= -slack) & (xmin * columns >= -slack)
    inside &= ((ymax - 1.0) * rows <= slack) & ((xmax - 1.0) * columns <= slack)
    kept = tf.where(inside | ~tf.reduce_any(inside))[:, 0]
    return clip_anchors(
        AnchorPredictions(
            box_codes=tf.gather(predictions.box_codes, kept, axis=1),
            class_logits=tf.gather(predictions.class_logits, kept, axis=1),
            anchors=tf.gather(predictions.anchors, kept),
        )
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


def crop_regions(
    maps: Sequence[tf.Tensor], boxes: tf.Tensor, size: int, levels: tf.Tensor | None = None
) -> tf.Tensor:
    """Sample square regions of feature maps, bilinearly; what lies outside of the map is 0.

    Args:
        maps: [B, h, w, K] each.
        boxes: float32 [B, P, 4], normalised to the maps.
        size: rows and columns of a region. Its corners are sampled at the box's corners.
        levels: int32 [B, P], the map of each region; None for a single map.

    Returns:
        float32 [B * P, size, size, K].
    """
    return _crop(maps, _rows(boxes, levels), size)


class _Rows(NamedTuple):
    """The regions of a batch in one row.

    Attributes:
        boxes: float32 [B * P, 4].
        images: int32 [B * P].
        levels: int32 [B * P], or None.
    """

    boxes: tf.Tensor
    images: tf.Tensor
    levels: tf.Tensor | None


def _rows(boxes: tf.Tensor, levels: tf.Tensor | None) -> _Rows:
    batch, number = tf.unstack(tf.shape(boxes)[:2])
    images = tf.repeat(tf.range(batch), number)
    return _Rows(tf.reshape(boxes, [-1, 4]), images, None if levels is None else tf.reshape(levels, [-1]))


def _crop(maps: Sequence[tf.Tensor], regions: _Rows, size: int) -> tf.Tensor:
    floats = [tf.cast(features, tf.float32) for features in maps]
    boxes, images, levels = regions
    if levels is None:
        return tf.image.crop_and_resize(floats[0], boxes, images, [size, size])
    of_maps = tf.dynamic_partition(tf.range(tf.size(levels)), levels, len(floats))
    crops = [
        tf.image.crop_and_resize(features, tf.gather(boxes, own), tf.gather(images, own), [size, size])
        for features, own in zip(floats, of_maps, strict=True)
    ]
    return tf.dynamic_stitch(of_maps, crops)


def region_features(
    maps: Sequence[tf.Tensor],
    boxes: tf.Tensor,
    levels: tf.Tensor | None,
    size: int,
    network: tf_keras.Model,
    most: int = REGIONS_AT_ONCE,
) -> tf.Tensor:
    """Crop regions as `crop_regions` and run a network on them, for inference.

    No more than `most` regions are cropped at a time: crops of 14 x 14 and 1,024 channels take 0.8 MB each.

    Returns:
        [B * P, ...], the network's output.
    """
    regions = _rows(boxes, levels)
    total = tf.shape(regions.boxes)[0]
    parts = tf.maximum((total + most - 1) // most, 1)
    step = (total + parts - 1) // parts

    def add(part: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        some = slice(part * step, (part + 1) * step)
        own = _Rows(*(None if row is None else row[some] for row in regions))
        return part + 1, found.write(part, network(_crop(maps, own, size), training=False))

    output = network.outputs[0]
    found = tf.TensorArray(output.dtype, parts, element_shape=output.shape, infer_shape=False)
    _, found = tf.while_loop(lambda part, _: part < parts, add, (0, found), parallel_iterations=1)
    return found.concat()


class RegionPredictions(NamedTuple):
    """Predictions for the proposals of a batch.

    Attributes:
        proposals: the proposals, P of each image.
        box_codes: float32 [B, P, Q, 4], Q being C, or 1 for boxes that all classes share.
        class_logits: float32 [B, P, C + 1], background first.
        mask_logits: float32 [B, P, h, w, M], M being C, or 1 for masks that all classes share; h = w = 0
            without masks.
    """

    proposals: Proposals
    box_codes: tf.Tensor
    class_logits: tf.Tensor
    mask_logits: tf.Tensor


class FirstStage(NamedTuple):
    """The region proposal network's outputs.

    Attributes:
        maps: [B, h, w, K] each, from which regions are cropped.
        predictions: of every anchor; the anchors are not clipped.
        size: rows and columns of the network's input, numbers or int32 scalars.
    """

    maps: Sequence[tf.Tensor]
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
    raw: RawDetections, detections: Detections, indices: tf.Tensor, windows: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Name what the detections of the second stage were made from.

    Args:
        raw: of the second stage.
        detections: after suppression.
        indices: int32 [B, D], the proposal of each detection.
        windows: float32 [B, 4], those of the true images, as from `true_windows`.

    Returns:
        All float32: detection_anchor_indices [B, D], detection_multiclass_scores [B, D, C + 1],
        raw_detection_boxes [B, P, 4], the box of a proposal's best class in the true image, and
        raw_detection_scores [B, P, C + 1].
    """
    boxes = raw.boxes[:, :, 0]
    if raw.boxes.shape[2] != 1:
        best = tf.argmax(raw.scores[:, :, 1:], axis=-1, output_type=tf.int32)
        boxes = tf.gather(raw.boxes, best, axis=2, batch_dims=2)
    window = windows[:, tf.newaxis]
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
