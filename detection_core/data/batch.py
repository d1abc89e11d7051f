"""Turn samples into batches for a model."""

import dataclasses

import numpy as np
import tensorflow as tf

from detection_core.data.resize import AutomlResizer, Resizer
from detection_core.ops.objects import end_at_last_pixel, keep_objects
from detection_core.structures import Batch, GroundTruth, Images, Sample


def pad_objects(truth: GroundTruth, count: int) -> GroundTruth:
    """Pad or cut unbatched ground truth to `count` rows; added rows are zero and invalid."""
    missing = tf.maximum(count - tf.shape(truth.boxes)[0], 0)
    room = {rank: tf.pad([[0, missing]], [[0, rank - 1], [0, 0]]) for rank in (1, 2, 3)}

    def pad(field: tf.Tensor) -> tf.Tensor:
        padded = tf.pad(field[:count], room[field.shape.rank])
        padded.set_shape([count, *field.shape[1:]])
        return padded

    return GroundTruth(*[pad(field) for field in truth])


def network_input(sample: Sample, *, resizer: Resizer, max_boxes: int, original_size: tf.Tensor) -> Batch:
    """Resize a sample and pad its objects: one element of a batch, without the leading B.

    Args:
        sample: decoded, perhaps augmented.
        resizer: gives the network's input size.
        max_boxes: G; further objects are dropped.
        original_size: int32 [2], rows and columns of the image as decoded.

    Returns:
        Boxes and keypoints are normalised to the padded network input, as anchors are. With EfficientDet's
        resizer, boxes end at the last pixel, as in its own input pipeline.
    """
    image, masks, true_size = resizer(sample.image, sample.truth.masks)
    image.set_shape([*resizer.static_shape[:2], image.shape[-1]])
    if masks.shape[1:] != [0, 0]:
        masks.set_shape([None, *resizer.static_shape[:2]])
    size = tf.cast(tf.shape(image)[:2], tf.float32)
    fraction = tf.cast(true_size, tf.float32) / size
    boxes, keypoints = sample.truth.boxes * tf.tile(fraction, [2]), sample.truth.keypoints * fraction
    truth = sample.truth._replace(boxes=boxes, masks=masks, keypoints=keypoints)
    if isinstance(resizer, AutomlResizer):
        truth = end_at_last_pixel(truth, size)
    return Batch(Images(image, true_size, original_size, sample.source_id), pad_objects(truth, max_boxes))


def batched(elements: tf.data.Dataset, batch_size: int, *, drop_remainder: bool) -> tf.data.Dataset:
    """Batch elements of `network_input`; images of different sizes are padded to the largest.

    Boxes and keypoints stay normalised to the network's input, which is the padded batch.
    """
    fixed = elements.element_spec.images.pixels.shape.is_fully_defined()
    masks = elements.element_spec.truth.masks.shape
    if fixed and masks[1:].is_fully_defined():
        return elements.batch(batch_size, drop_remainder=drop_remainder)
    if fixed:
        return elements.padded_batch(batch_size, drop_remainder=drop_remainder)
    in_pixels = elements.map(lambda batch: _scaled(batch, 1.0))
    padded = in_pixels.padded_batch(batch_size, drop_remainder=drop_remainder)
    return padded.map(lambda batch: _scaled(batch, -1.0))


def _scaled(batch: Batch, power: float) -> Batch:
    """Multiply boxes and keypoints by a power of the images' rows and columns."""
    size = tf.cast(tf.shape(batch.images.pixels)[-3:-1], tf.float32) ** power
    boxes, keypoints = batch.truth.boxes * tf.tile(size, [2]), batch.truth.keypoints * size
    return batch._replace(truth=batch.truth._replace(boxes=boxes, keypoints=keypoints))


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelTargets:
    """Choose the classes to train on, after all augmentation.

    Attributes:
        classes: C.
        use_scores: train on recorded class scores instead of each object's class.
        merge_equal_boxes: merge objects with the same box; the scores hold all their classes.
        keypoint_weights: weight of each kind of keypoint; empty: 1 for all.
        class_weights: weight of each class in the class loss, see `find_class_weights`; empty: 1 for all.
    """

    classes: int
    use_scores: bool = False
    merge_equal_boxes: bool = False
    keypoint_weights: tuple[float, ...] = ()
    class_weights: tuple[float, ...] = ()

    def __call__(self, truth: GroundTruth) -> GroundTruth:
        """Change unbatched ground truth."""
        if self.merge_equal_boxes:
            truth = merge_equal_boxes(truth, self.classes)
        elif not self.use_scores:
            truth = truth._replace(class_scores=truth.class_scores[:, :0])
        if self.keypoint_weights:
            weights = truth.keypoint_weights * tf.constant(self.keypoint_weights)
            truth = truth._replace(keypoint_weights=weights)
        if self.class_weights:
            truth = truth._replace(class_weights=tf.gather(self.class_weights, truth.classes))
        return truth


def find_class_weights(objects: np.ndarray, power: float) -> tuple[float, ...]:
    """Compute the weight of each class, its number of `objects`, int [C], to minus `power`.

    The mean over the classes that have objects is 1. A class without any has weight 1.
    """
    found = objects > 0
    weights = np.maximum(objects, 1.0) ** -power
    mean = np.sum(weights, where=found) / max(1, found.sum())
    return tuple(np.where(found, weights / (mean or 1.0), 1.0).tolist())


def merge_equal_boxes(truth: GroundTruth, classes: int) -> GroundTruth:
    """Merge unbatched objects with the same box into the first of them, with confidence 1.

    Its class_scores [G, C] hold the confidence of each class among the objects with that box, else 0.
    """
    boxes, count = truth.boxes, tf.shape(truth.boxes)[0]
    equal = tf.reduce_all(boxes[:, tf.newaxis] == boxes, axis=-1)
    first = tf.reduce_min(tf.where(equal, tf.range(count), count), axis=1)
    scores = tf.one_hot(truth.classes, classes) * truth.confidences[:, tf.newaxis]
    # If several objects of one box share a class, the highest confidence counts.
    for_class, against_class = (
        tf.maximum(tf.math.unsorted_segment_max(sign * scores, first, count), 0.0) for sign in (1.0, -1.0)
    )
    merged = truth._replace(
        class_scores=tf.ensure_shape(for_class - against_class, [None, classes]),
        confidences=tf.ones_like(truth.confidences),
    )
    return keep_objects(merged, first == tf.range(count))
