"""Changes to boxes and classes; the image stays."""

import dataclasses

import tensorflow as tf

from detection_core.ops.objects import keep_objects
from detection_core.structures import Sample

# Directions of ymin, xmin, ymax, xmax, and the draw (of four) that each uses.
_OUTWARD, _INWARD = (-1.0, -1.0, 1.0, 1.0), (1.0, 1.0, -1.0, -1.0)
_EACH, _SYMMETRIC, _SYMMETRIC_XY = (0, 1, 2, 3), (0, 1, 0, 1), (0, 0, 0, 0)
_JITTER = {
    "EXPAND": (_OUTWARD, _EACH),
    "SHRINK": (_INWARD, _EACH),
    "EXPAND_SYMMETRIC": (_OUTWARD, _SYMMETRIC),
    "SHRINK_SYMMETRIC": (_INWARD, _SYMMETRIC),
    "EXPAND_SYMMETRIC_XY": (_OUTWARD, _SYMMETRIC_XY),
    "SHRINK_SYMMETRIC_XY": (_INWARD, _SYMMETRIC_XY),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomJitterBoxes:
    """Move the sides of boxes a little; boxes stay in the image and keep ymin <= ymax, xmin <= xmax.

    Attributes:
        ratio: largest move, as a fraction of the box's height or width.
        jitter_mode: DEFAULT: each side either way; EXPAND, SHRINK: each out or in; ..._SYMMETRIC: opposite
            sides alike; ..._SYMMETRIC_XY: all sides alike.
    """

    ratio: float = 0.05
    jitter_mode: str = "DEFAULT"

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        boxes = sample.truth.boxes
        draws = tf.random.stateless_uniform(tf.shape(boxes), seed)
        if self.jitter_mode == "DEFAULT":
            moves = 2.0 * draws - 1.0
        else:
            directions, columns = _JITTER[self.jitter_mode]
            moves = tf.gather(draws, columns, axis=1) * tf.constant(directions)
        sizes = tf.tile(boxes[:, 2:] - boxes[:, :2], [1, 2])
        moved = tf.clip_by_value(boxes + moves * self.ratio * sizes, 0.0, 1.0)
        low, high = tf.minimum(moved[:, :2], moved[:, 2:]), tf.maximum(moved[:, :2], moved[:, 2:])
        return sample._replace(truth=sample.truth._replace(boxes=tf.concat([low, high], 1)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleBoxesToPixelCoordinates:
    """Convert normalised boxes and keypoints to pixels; all later steps must expect pixels."""

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        size, truth = tf.cast(tf.shape(sample.image)[:2], tf.float32), sample.truth
        boxes, keypoints = truth.boxes * tf.tile(size, [2]), truth.keypoints * size
        return sample._replace(truth=truth._replace(boxes=boxes, keypoints=keypoints))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DropCrowdBoxes:
    """Remove crowd objects."""

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        return sample._replace(truth=keep_objects(sample.truth, ~sample.truth.is_crowd))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DropLabelProbabilistically:
    """Remove objects of one class, with its id as in the label map, at random."""

    label: int
    drop_probability: float = 1.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        classes = sample.truth.classes
        dropped = tf.random.stateless_uniform(tf.shape(classes), seed) < self.drop_probability
        keep = tf.logical_not(dropped & (classes == self.label - 1))
        return sample._replace(truth=keep_objects(sample.truth, keep))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemapLabels:
    """Map several class ids of the label map to one; recorded scores keep their columns."""

    original_labels: tuple[int, ...]
    new_label: int

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        classes = sample.truth.classes
        listed = tf.constant(self.original_labels, tf.int32, [len(self.original_labels)]) - 1
        mapped = tf.reduce_any(classes[:, tf.newaxis] == listed, axis=1)
        classes = tf.where(mapped, self.new_label - 1, classes)
        return sample._replace(truth=sample.truth._replace(classes=classes))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertClassLogitsToSoftmax:
    """Convert recorded scores from logits, for example of a teacher, to probabilities.

    Attributes:
        temperature: divisor of the logits; above 1 makes the probabilities more even.
    """

    temperature: float = 1.0

    def __call__(self, sample: Sample, seed: tf.Tensor) -> Sample:
        """Augment the sample."""
        scores = tf.nn.softmax(sample.truth.class_scores / self.temperature)
        return sample._replace(truth=sample.truth._replace(class_scores=scores))
