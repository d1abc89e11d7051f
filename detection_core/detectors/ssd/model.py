"""One-stage detectors on anchors: SSD, RetinaNet, EfficientDet."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Self

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.base import (
    CLASSIFICATION_LOSS,
    LOCALIZATION_LOSS,
    REGULARIZATION_LOSS,
    TOTAL_LOSS,
    DetectionModel,
    RawDetections,
)
from detection_core.detectors.parts.anchor_criterion import AnchorCriterion
from detection_core.detectors.parts.box_coders.base import BoxCoder
from detection_core.detectors.parts.box_coders.keypoint import KeypointBoxCoder
from detection_core.detectors.parts.layers.layer_hyperparams import Penalty
from detection_core.detectors.parts.layers.preprocessing import PREPROCESSORS
from detection_core.detectors.parts.layers.regularization import penalized_variables, regularization_loss
from detection_core.errors import ModelError
from detection_core.ops.nms import multiclass_nms
from detection_core.ops.post_processing import PostProcessing
from detection_core.structures import AnchorPredictions, Detections, GroundTruth, Images


@dataclasses.dataclass(frozen=True, kw_only=True)
class SsdOptions:
    """Numbers of a one-stage detector.

    Attributes:
        num_classes: C, without the background.
        input_size: rows and columns of the network input.
        preprocessing: name in `models.preprocessing.PREPROCESSORS`.
        code_clip: smallest and largest box code.
        background: whether the first class logit is the background's.
    """

    num_classes: int
    input_size: tuple[int, int]
    preprocessing: str
    code_clip: tuple[float, float] = (-math.inf, math.inf)
    background: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class SsdParts:
    """What a one-stage detector is made of, besides its network.

    Attributes:
        options: its numbers.
        anchors: float32 [A, 4], normalised to the network input.
        box_coder: boxes to codes and back.
        post_processing: logits to scores, and the choice of detections.
        criterion: what training minimises, penalties aside.
        penalties: on the network's weights, "layer/weight" -> penalty.
    """

    options: SsdOptions
    anchors: np.ndarray
    box_coder: BoxCoder
    post_processing: PostProcessing
    criterion: AnchorCriterion
    penalties: Mapping[str, Penalty]


class SsdModel(DetectionModel):
    """A detector whose network predicts for fixed anchors (https://arxiv.org/abs/1512.02325)."""

    def __init__(self, network: tf_keras.Model, parts: SsdParts) -> None:
        super().__init__(name="ssd")
        self.network = network
        self.num_classes = parts.options.num_classes
        self.input_size = parts.options.input_size
        self.has_background = parts.options.background
        coder = parts.box_coder
        self.num_keypoints = coder.num_keypoints if isinstance(coder, KeypointBoxCoder) else 0
        self._parts = parts

    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        """Normalise pixels; see `DetectionModel.preprocess`."""
        return PREPROCESSORS[self._parts.options.preprocessing](pixels)

    def predict(self, images: Images, training: bool) -> AnchorPredictions:
        """Run the network; see `DetectionModel.predict`.

        Raises:
            ModelError: when the images do not have the network's input size (static check).
        """
        found = tuple(images.pixels.shape[1:3])
        if any(size not in (None, wanted) for size, wanted in zip(found, self.input_size, strict=True)):
            raise ModelError(
                f"expected images of {self.input_size[0]}x{self.input_size[1]}, found {found[0]}x{found[1]};"
                " resize them as the config's image_resizer says"
            )
        codes, logits = self.network(self.preprocess(images.pixels), training=training)
        lowest, highest = self._parts.options.code_clip
        if math.isfinite(lowest) or math.isfinite(highest):
            codes = tf.clip_by_value(codes, lowest, highest)
        return AnchorPredictions(
            box_codes=codes, class_logits=logits, anchors=tf.constant(self._parts.anchors)
        )

    def losses(self, predictions: AnchorPredictions, truth: GroundTruth) -> dict[str, tf.Tensor]:
        """Compare predictions with ground truth; see `DetectionModel.losses`."""
        found = self._parts.criterion(predictions, truth)
        penalty = regularization_loss(penalized_variables(self.network, self._parts.penalties))
        return {
            LOCALIZATION_LOSS: found.localization,
            CLASSIFICATION_LOSS: found.classification,
            REGULARIZATION_LOSS: penalty,
            TOTAL_LOSS: found.localization + found.classification + penalty,
        }

    def raw_detections(self, predictions: AnchorPredictions) -> RawDetections:
        """Decode boxes and convert logits; see `DetectionModel.raw_detections`."""
        scores = self._parts.post_processing.score_converter(predictions.class_logits)
        if not self._parts.options.background:
            scores = tf.pad(scores, [[0, 0], [0, 0], [1, 0]])
        boxes = self._parts.box_coder.decode(predictions.box_codes, predictions.anchors)
        return RawDetections(boxes=boxes, scores=scores, anchors=predictions.anchors)

    def detect_with_anchors(
        self, predictions: AnchorPredictions, true_sizes: tf.Tensor
    ) -> tuple[Detections, tf.Tensor]:
        """Turn predictions into detections; see `DetectionModel.detect_with_anchors`."""
        raw = self.raw_detections(predictions)
        share = tf.cast(true_sizes, tf.float32) / tf.constant(self.input_size, tf.float32)
        window = tf.concat([tf.zeros_like(share), share], axis=-1)
        found = multiclass_nms(raw.boxes, raw.scores[:, :, 1:], self._parts.post_processing.nms, window)
        detections = Detections(
            boxes=found.boxes, scores=found.scores, classes=found.classes, count=found.count
        )
        return detections, found.anchor_indices

    def detected_keypoints(
        self, predictions: AnchorPredictions, anchor_indices: tf.Tensor, true_sizes: tf.Tensor
    ) -> tf.Tensor:
        """Decode the keypoints of detections; see `DetectionModel.detected_keypoints`."""
        coder = self._parts.box_coder
        if not isinstance(coder, KeypointBoxCoder):
            return super().detected_keypoints(predictions, anchor_indices, true_sizes)
        codes = tf.gather(predictions.box_codes, anchor_indices, batch_dims=1)
        keypoints = coder.decode_keypoints(codes, tf.gather(predictions.anchors, anchor_indices))
        share = tf.cast(true_sizes, tf.float32) / tf.constant(self.input_size, tf.float32)
        return keypoints / share[:, tf.newaxis, tf.newaxis, :]

    def with_network(self, network: tf_keras.Model) -> Self:
        """The same detector around a rewritten network; see `DetectionModel.with_network`."""
        return type(self)(network, self._parts)
