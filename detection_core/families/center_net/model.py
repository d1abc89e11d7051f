"""CenterNet, https://arxiv.org/abs/1904.07850: objects as peaks of a heatmap."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf
import tf_keras

from detection_core.detectors import base
from detection_core.errors import ModelError
from detection_core.families.center_net import decoding
from detection_core.families.center_net.extractors import STRIDE
from detection_core.families.center_net.losses import CenterNetCriterion
from detection_core.families.center_net.network import (
    BOX_OFFSET,
    BOX_SCALE,
    OBJECT_CENTER,
    Head,
    Predictions,
    by_head,
)
from detection_core.ops.nms import NmsOptions, multiclass_nms
from detection_core.parts.layers.keras_layers import PREPROCESSORS, by_channel, reverse_colours
from detection_core.structures import Batch, Detections, Images, box_detections

LOSS = "Loss/"


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputScaling:
    """Conversion of RGB pixels, 0..255, to the network's input.

    Attributes:
        blue_first: whether channels are reversed first.
        means: of each channel in that order, subtracted.
        deviations: of each channel in that order, divided by.
        scaling: what follows, of `Extractor.scaling`.
    """

    blue_first: bool = False
    means: tuple[float, ...] = (0.0, 0.0, 0.0)
    deviations: tuple[float, ...] = (1.0, 1.0, 1.0)
    scaling: str = ""

    def __call__(self, pixels: tf.Tensor) -> tf.Tensor:
        """Convert float32 [B, H, W, 3]."""
        pixels = reverse_colours(pixels) if self.blue_first else pixels
        pixels = (pixels - by_channel(self.means, pixels)) / by_channel(self.deviations, pixels)
        if self.scaling == "caffe":
            return reverse_colours(PREPROCESSORS["channel_means"](pixels))
        return PREPROCESSORS[self.scaling](pixels) if self.scaling else pixels


@dataclasses.dataclass(frozen=True, kw_only=True)
class CenterNetParts:
    """The parts of a detector besides its network.

    Attributes:
        num_classes: C.
        input_size: rows and columns of the network's input.
        scaling: of pixels.
        heads: in the order of the network's outputs.
        max_detections: most objects of an image.
        finds_boxes: whether there are heads of sizes and offsets; without them, boxes enclose the keypoints.
        nms: suppression of the objects; None: there is none.
        keypoints: keypoint tasks.
        criterion: the training loss.
        paths: name of a layer with weights -> its object path in checkpoints, below the model.
    """

    num_classes: int
    input_size: tuple[int, int]
    scaling: InputScaling
    heads: tuple[Head, ...]
    max_detections: int
    finds_boxes: bool = True
    nms: NmsOptions | None = None
    keypoints: tuple[decoding.KeypointTask, ...]
    criterion: CenterNetCriterion
    paths: Mapping[str, str]


class FoundObjects(NamedTuple):
    """The objects of a batch, by falling score, before what their keypoints change.

    Attributes:
        boxes: float32 [B, D, 4], pixels of the heatmap.
        scores: float32 [B, D].
        classes: int32 [B, D].
        class_scores: float32 [B, D, C], of all classes at the objects' centres.
        keypoints: float32 [B, D, K, 2], pixels of the heatmap; 0 for objects whose class has none.
        keypoint_scores: float32 [B, D, K].
        keypoint_depths: float32 [B, D, K]; K is 0 if there are none.
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    classes: tf.Tensor
    class_scores: tf.Tensor
    keypoints: tf.Tensor
    keypoint_scores: tf.Tensor
    keypoint_depths: tf.Tensor


class CenterNetModel(base.OneNetworkDetector[CenterNetParts]):
    """A detector whose network draws a heatmap of the objects' centres.

    Attributes:
        network: flat functional model of stock layers, float32 [B, H, W, 3] preprocessed to the outputs of
            its heads, each [B, H / 4, W / 4, channels].
        num_classes: C.
    """

    def __init__(self, network: tf_keras.Model, parts: CenterNetParts) -> None:
        super().__init__("center_net", network, parts, parts.num_classes)

    @property
    def num_keypoints(self) -> int:
        """Return the number of keypoints of a detection: one more than the largest index of all tasks."""
        return max((max(task.indices) + 1 for task in self.parts.keypoints), default=0)

    @property
    def _has_depths(self) -> bool:
        return any(task.depths for task in self.parts.keypoints)

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Compare predictions with ground truth; see `Detector.losses`.

        Raises:
            ModelError: when the batch has fewer keypoints than the tasks name, or no depths of them for a
                task that learns depths (static check).
        """
        found = batch.truth.keypoints.shape[2]
        if found is not None and found < self.num_keypoints:
            raise ModelError(
                f"expected at least the {self.num_keypoints} keypoints that the label map numbers, found"
                f" {found}; set num_keypoints of train_input_reader"
            )
        if self._has_depths and batch.truth.keypoint_depths.shape[2] == 0:
            raise ModelError(
                "expected the depths of keypoints, which predict_depth learns, found none read; set"
                " load_keypoint_depth_features of train_input_reader"
            )
        predictions = self.predict(batch.images, training)
        losses = self.parts.criterion(predictions, batch.truth, batch.images.true_sizes)
        return base.with_total({f"{LOSS}{name}": value for name, value in losses.items()})

    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        """Normalise resized and padded pixels, float32 [B, H, W, 3], RGB, 0..255, as the backbone expects."""
        return self.parts.scaling(pixels)

    def predict(self, images: Images, training: bool) -> Predictions:
        """Run the network on images of the input size; training uses and updates batch statistics."""
        outputs = self.network(self.preprocess(images.pixels), training=training)
        return by_head(self.parts.heads, base.in_float32(outputs))

    def detect(self, images: Images) -> Detections:
        """Detect objects; see `Detector.detect`."""
        found = self.find(self.predict(images, training=False), images.true_sizes)
        return self.finished(found, images.true_sizes)[0]

    def serving_outputs(self, images: Images) -> dict[str, tf.Tensor]:
        """Return the outputs of a SavedModel's signature.

        Returns:
            As `named_detections`, and float32 detection_boxes_strided [B, D, 4], in pixels of the heatmap,
            detection_multiclass_scores [B, D, C] and, with keypoint tasks, detection_keypoint_scores and, if
            a task has depths, detection_keypoint_depths [B, D, K].
        """
        found = self.find(self.predict(images, training=False), images.true_sizes)
        detections, found = self.finished(found, images.true_sizes)
        outputs = base.named_detections(detections) | {
            "detection_boxes_strided": found.boxes,
            "detection_multiclass_scores": found.class_scores,
        }
        if self.parts.keypoints:
            outputs["detection_keypoint_scores"] = found.keypoint_scores
        if self._has_depths:
            outputs["detection_keypoint_depths"] = found.keypoint_depths
        return outputs

    def class_scores(self, logits: tf.Tensor) -> tf.Tensor:
        """Convert the logits of the centres' heatmaps to scores of the same shape."""
        return tf.sigmoid(logits)

    def find(self, predictions: Predictions, true_sizes: tf.Tensor) -> FoundObjects:
        """Find the objects in the outputs of the last map.

        `true_sizes` is int32 [B, 2], rows and columns of the input that hold the image.
        """
        parts = self.parts
        centers = self.class_scores(predictions[OBJECT_CENTER][-1])
        peaks = decoding.top_peaks(centers, parts.max_detections)
        boxes = enclosing = None
        if parts.finds_boxes:
            boxes = decoding.boxes_at(peaks, predictions[BOX_SCALE][-1], predictions[BOX_OFFSET][-1])
        else:
            enclosing = tf.zeros([*_shape(peaks.scores), 4])
        keypoints = tf.zeros([*_shape(peaks.scores), self.num_keypoints, 2])
        keypoint_scores = tf.zeros([*_shape(peaks.scores), self.num_keypoints])
        keypoint_depths = tf.zeros([*_shape(peaks.scores), self.num_keypoints if self._has_depths else 0])
        for task in parts.keypoints:
            places, scores, depths = decoding.detect_keypoints(predictions, peaks, boxes, task)
            of_task = tf.cast(peaks.channels == task.class_index, tf.float32)[..., tf.newaxis]
            keypoints += self._of_all_tasks(places, task) * of_task[..., tf.newaxis]
            keypoint_scores += self._of_all_tasks(scores, task) * of_task
            if task.depths:
                keypoint_depths += self._of_all_tasks(depths, task) * of_task
            if enclosing is not None:
                corners = tf.reduce_min(places, axis=2), tf.reduce_max(places, axis=2)
                enclosing += tf.concat(corners, axis=-1) * of_task
        found = FoundObjects(
            boxes=enclosing if boxes is None else boxes,
            scores=peaks.scores,
            classes=peaks.channels,
            class_scores=decoding.at_pixels(centers, peaks.rows, peaks.columns),
            keypoints=keypoints,
            keypoint_scores=keypoint_scores,
            keypoint_depths=keypoint_depths,
        )
        return found if parts.nms is None else suppressed(found, true_sizes, parts.nms)

    def _of_all_tasks(self, values: tf.Tensor, task: decoding.KeypointTask) -> tf.Tensor:
        """Return values [B, D, k, ...] of a task as [B, D, K, ...], 0 for keypoints of other tasks."""
        # No matrix product: in a TensorFlow Lite file it would be a layer of the network.
        own = list(task.indices)
        places = [
            own.index(keypoint) if keypoint in own else len(own) for keypoint in range(self.num_keypoints)
        ]
        paddings = [[0, int(axis == 2)] for axis in range(values.shape.rank)]
        return tf.gather(tf.pad(values, paddings), places, axis=2)

    def finished(self, found: FoundObjects, true_sizes: tf.Tensor) -> tuple[Detections, FoundObjects]:
        """Return detections normalised to the true images, and the objects as their keypoints change them.

        Both are sorted by the changed scores. The Object Detection API leaves them in the order of the peaks.
        """
        count = tf.reduce_sum(tf.cast(found.scores > 0.0, tf.int32), axis=1)
        tasks, keypoints = self.parts.keypoints, found.keypoints
        if tasks:
            keypoints = decoding.in_true_images(keypoints, true_sizes, STRIDE)
            # Tasks that do not agree clip nothing, as in the Object Detection API.
            if all(task.refinement.clipped for task in tasks):
                keypoints, scores = decoding.clip_to_image(keypoints, found.keypoint_scores)
                found = found._replace(keypoint_scores=scores)
        rescored = [task for task in tasks if task.refinement.rescored]
        for task in rescored:
            own = tf.gather(found.keypoint_scores, task.indices, axis=2)
            of_task = found.classes == task.class_index
            found = found._replace(scores=decoding.rescore(found.scores, of_task, own, task.refinement))
        if rescored:
            order = tf.math.top_k(found.scores, found.scores.shape[1]).indices
            keypoints, *fields = (tf.gather(each, order, batch_dims=1) for each in (keypoints, *found))
            found = FoundObjects(*fields)
        boxes = shown_boxes(found.boxes, true_sizes)
        detections = box_detections(boxes, found.scores, found.classes, count)
        return detections._replace(keypoints=keypoints), found


def shown_boxes(boxes: tf.Tensor, true_sizes: tf.Tensor) -> tf.Tensor:
    """Return boxes, float32 [B, D, 4] in pixels of the heatmap, normalised to the true images and clipped."""
    return tf.clip_by_value(decoding.in_true_images(boxes, true_sizes, STRIDE), 0.0, 1.0)


def suppressed(found: FoundObjects, true_sizes: tf.Tensor, options: NmsOptions) -> FoundObjects:
    """Suppress duplicates among objects by the scores of all classes at their centres.

    An object may be found as several classes, with its keypoints each time.
    """
    scores = tf.where(found.scores[..., tf.newaxis] > 0.0, found.class_scores, 0.0)
    boxes = shown_boxes(found.boxes, true_sizes)
    # Boxes without area are no objects.
    window = tf.tile([[0.0, 0.0, 1.0, 1.0]], [tf.shape(scores)[0], 1])
    kept = multiclass_nms(boxes, scores, options, window)
    filled = tf.sequence_mask(kept.count, options.max_total_detections)

    def take(values: tf.Tensor) -> tf.Tensor:
        rows = tf.gather(values, kept.anchor_indices, batch_dims=1)
        mask = tf.reshape(filled, [-1, options.max_total_detections, *[1] * (values.shape.rank - 2)])
        return tf.where(mask, rows, tf.zeros_like(rows))

    return FoundObjects(*map(take, found))._replace(scores=kept.scores, classes=kept.classes)


def _shape(scores: tf.Tensor) -> list[tf.Tensor]:
    return [tf.shape(scores)[0], scores.shape[1]]
