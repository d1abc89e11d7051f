"""The losses of CenterNet, https://arxiv.org/abs/1904.07850."""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from detection_core.detectors.base import inside_images
from detection_core.families.center_net import network
from detection_core.families.center_net.decoding import KeypointTask
from detection_core.families.center_net.extractors import STRIDE
from detection_core.families.center_net.targets import (
    KeypointTruth,
    PointTargets,
    box_targets,
    center_heatmaps,
    keypoint_center_heatmaps,
    keypoint_depths,
    keypoint_heatmaps,
    keypoint_offsets,
    keypoint_regressions,
    keypoint_truth,
)
from detection_core.parts.losses import ClassificationLoss, LocalizationLoss
from detection_core.structures import GroundTruth


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeypointLosses:
    """Losses of a keypoint task.

    Attributes:
        task: what is compared.
        classification: loss of heatmaps.
        localization: loss of offsets and regressions.
        weights: of heatmap, offset and regression.
        depth_weight: of depths, for a task that has them.
    """

    task: KeypointTask
    classification: ClassificationLoss
    localization: LocalizationLoss
    weights: tuple[float, float, float]
    depth_weight: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class CenterNetCriterion:
    """The training loss.

    Attributes:
        num_classes: C.
        min_overlap: IoU that boxes within the peak of an object keep.
        classification: loss of the centres' heatmaps.
        localization: loss of sizes and offsets; None: the detector has no heads of them.
        weights: name of a head -> weight of its loss, for centres, sizes and offsets.
        keypoints: losses of the keypoint tasks.
        center_weights: weight of each keypoint of the only task in an object's centre; empty: the centre is
            that of the box.
    """

    num_classes: int
    min_overlap: float
    classification: ClassificationLoss
    localization: LocalizationLoss | None
    weights: Mapping[str, float]
    keypoints: tuple[KeypointLosses, ...] = ()
    center_weights: tuple[float, ...] = ()

    def __call__(
        self, predictions: network.Predictions, truth: GroundTruth, true_sizes: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Compare predictions with ground truth; boxes are normalised to the network's input.

        True sizes are int32 [B, 2], rows and columns of the input that hold the image.

        Returns:
            Name of a head -> its weighted loss, a float32 scalar.
        """
        first = predictions[network.OBJECT_CENTER][0]
        shape = (int(first.shape[1]), int(first.shape[2]))
        pixels = pixel_weights(true_sizes, shape)
        objects = tf.maximum(tf.cast(tf.math.count_nonzero(truth.weights), tf.float32), 1.0)
        wanted = self._centers(truth, shape)
        of_classes = tf.one_hot(truth.classes, self.num_classes) * truth.class_weights[..., tf.newaxis]
        of_classes = tf.reduce_max(of_classes, axis=1)[:, tf.newaxis, tf.newaxis]
        weights = tf.where(wanted == 1.0, of_classes, 1.0) * pixels
        found = {
            network.OBJECT_CENTER: _heatmap_loss(
                self.classification, predictions[network.OBJECT_CENTER], wanted, weights
            )
        }
        if self.localization is not None:
            for name, targets in zip(
                (network.BOX_SCALE, network.BOX_OFFSET), box_targets(truth, shape), strict=True
            ):
                found[name] = _point_loss(self.localization, predictions[name], targets)
        losses = {name: self.weights[name] * value / objects for name, value in found.items()}
        for each in self.keypoints:
            losses |= keypoint_losses(each, predictions, truth, pixels, shape)
        return losses

    def _centers(self, truth: GroundTruth, shape: tuple[int, int]) -> tf.Tensor:
        if not self.center_weights:
            return center_heatmaps(truth, shape, self.num_classes, self.min_overlap)
        # A keypoint's weight in the losses does not move the centre.
        known = _alike(self.keypoints[0].task, truth, shape)
        drawn = (*shape, self.num_classes)
        return keypoint_center_heatmaps(truth, known, self.center_weights, self.min_overlap, drawn)


def pixel_weights(true_sizes: tf.Tensor, shape: tuple[int, int]) -> tf.Tensor:
    """Return float32 [B, rows, columns, 1], 1 at pixels of a map that hold the image and 0 in its padding."""
    return inside_images(tf.math.ceil(tf.cast(true_sizes, tf.float32) / STRIDE), shape)


def _flat(maps: tf.Tensor) -> tf.Tensor:
    """Join rows and columns."""
    return tf.reshape(maps, [-1, maps.shape[1] * maps.shape[2], maps.shape[3]])


def _heatmap_loss(
    loss: ClassificationLoss, outputs: list[tf.Tensor], wanted: tf.Tensor, weights: tf.Tensor
) -> tf.Tensor:
    """Return the mean over the outputs of the summed loss; weights are of pixels, or of heatmaps' values."""
    wanted, weights = _flat(wanted), _flat(weights)
    sums = [tf.reduce_sum(loss(_flat(output), wanted, weights)) for output in outputs]
    return tf.add_n(sums) / len(outputs)


def _point_loss(loss: LocalizationLoss, outputs: list[tf.Tensor], targets: PointTargets) -> tf.Tensor:
    """Return the mean over the outputs of the summed loss at single pixels."""
    sums = [
        tf.reduce_sum(loss(_at_points(output, targets), targets.values, targets.weights))
        for output in outputs
    ]
    return tf.add_n(sums) / len(outputs)


def _at_points(output: tf.Tensor, targets: PointTargets) -> tf.Tensor:
    """Take the values of a map, float32 [B, rows, columns, s * n], that targets name; return [B, N, s]."""
    _, rows, columns, channels = output.shape
    size = targets.values.shape[-1]
    groups = channels // size
    flat = tf.reshape(output, [-1, rows * columns * groups, size])
    number = targets.channels if groups > 1 else 0
    return tf.gather(flat, (targets.rows * columns + targets.columns) * groups + number, batch_dims=1)


def _alike(task: KeypointTask, truth: GroundTruth, shape: tuple[int, int]) -> KeypointTruth:
    """Select a task's keypoints, known ones with the weight of their object."""
    truth = truth._replace(keypoint_weights=tf.ones_like(truth.keypoint_weights))
    return keypoint_truth(truth, shape, task.class_index, task.indices)


def keypoint_losses(
    losses: KeypointLosses,
    predictions: network.Predictions,
    truth: GroundTruth,
    pixels: tf.Tensor,
    shape: tuple[int, int],
) -> dict[str, tf.Tensor]:
    """Compare the heads of a task with ground truth; weights of pixels are float32 [B, rows, columns, 1].

    Returns:
        Name of a head -> its weighted loss, a float32 scalar.
    """
    task = losses.task
    names = network.keypoint_heads(task.name)
    heatmap, offset, regression = (predictions[name] for name in names)
    known = keypoint_truth(truth, shape, task.class_index, task.indices)
    wanted, objects, mask = keypoint_heatmaps(known, task.deviations, shape)
    keypoints = tf.maximum(tf.cast(tf.reduce_sum(objects), tf.float32), 1.0)
    found = [_heatmap_loss(losses.classification, heatmap, wanted, mask * pixels) / keypoints]

    def mean(outputs: list[tf.Tensor], targets: PointTargets) -> tf.Tensor:
        total = tf.maximum(tf.reduce_sum(targets.weights), 1.0)
        return _point_loss(losses.localization, outputs, targets) / total

    for outputs, make in ((offset, keypoint_offsets), (regression, keypoint_regressions)):
        found.append(mean(outputs, make(known, task.offset_radius, shape)))
    result = {name: weight * value for name, weight, value in zip(names, losses.weights, found, strict=True)}
    if task.depths:
        # A keypoint's own weight does not count, as in the Object Detection API.
        own, name = _alike(task, truth, shape), network.depth_head(task.name)
        weights = own.weights * tf.gather(truth.keypoint_depth_weights, task.indices, axis=2)
        depths = tf.gather(truth.keypoint_depths, task.indices, axis=2)
        targets = keypoint_depths(own._replace(weights=weights), depths, task.offset_radius, shape)
        result[name] = losses.depth_weight * mean(predictions[name], targets)
    return result
