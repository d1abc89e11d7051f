"""What a detector is to training, evaluation, quantization and export."""

from __future__ import annotations

import abc
from typing import NamedTuple, Self

import tensorflow as tf
import tf_keras

from detection_core.structures import AnchorPredictions, Detections, GroundTruth, Images

LOCALIZATION_LOSS = "Loss/localization_loss"
CLASSIFICATION_LOSS = "Loss/classification_loss"
REGULARIZATION_LOSS = "Loss/regularization_loss"
TOTAL_LOSS = "Loss/total_loss"


class RawDetections(NamedTuple):
    """Every anchor's detection before suppression.

    Attributes:
        boxes: float32 [B, A, 4], decoded, normalised to the (padded) network input, not clipped.
        scores: float32 [B, A, C + 1], converted, background first; 0 for it where the network has none.
        anchors: float32 [A, 4], normalised to the (padded) network input.
    """

    boxes: tf.Tensor
    scores: tf.Tensor
    anchors: tf.Tensor


class DetectionModel(tf.Module, abc.ABC):
    """A detector: verbs around one network, and no memory between them.

    Attributes:
        network: flat functional model of stock layers, float32 [B, H, W, 3] preprocessed to
            (box codes [B, A, 4], class logits [B, A, C + 1]).
        num_classes: C, without the background.
        input_size: rows and columns of the network input.
        num_keypoints: K, keypoints of each detection.
        has_background: whether the network has a class slot for the background.
    """

    network: tf_keras.Model
    num_classes: int
    input_size: tuple[int, int]
    has_background: bool = True
    num_keypoints: int = 0

    @abc.abstractmethod
    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        """Normalise resized and padded pixels as the backbone expects.

        Args:
            pixels: float32 [B, H, W, 3], RGB, 0..255.

        Returns:
            float32 [B, H, W, 3].
        """

    @abc.abstractmethod
    def predict(self, images: Images, training: bool) -> AnchorPredictions:
        """Run the network.

        Args:
            images: a batch of `input_size`.
            training: normalise with batch statistics and collect them, drop features.
        """

    @abc.abstractmethod
    def losses(self, predictions: AnchorPredictions, truth: GroundTruth) -> dict[str, tf.Tensor]:
        """Compare predictions with ground truth.

        Args:
            predictions: of `predict`.
            truth: of the same images, batched; boxes normalised to the network input.

        Returns:
            float32 scalars under this module's four names; the total is the sum of the other three.
        """

    @abc.abstractmethod
    def raw_detections(self, predictions: AnchorPredictions) -> RawDetections:
        """Decode the boxes and convert the logits of every anchor."""

    @abc.abstractmethod
    def detect_with_anchors(
        self, predictions: AnchorPredictions, true_sizes: tf.Tensor
    ) -> tuple[Detections, tf.Tensor]:
        """Turn predictions into detections, and say which anchors they come from.

        Args:
            predictions: of `predict`.
            true_sizes: int32 [B, 2], rows and columns of the input that hold the image.

        Returns:
            Detections normalised to the true image, and int32 [B, D], the anchor of each.
        """

    def detect(self, predictions: AnchorPredictions, true_sizes: tf.Tensor) -> Detections:
        """Turn predictions into detections; as `detect_with_anchors`, without the anchors."""
        return self.detect_with_anchors(predictions, true_sizes)[0]

    def detected_keypoints(
        self, predictions: AnchorPredictions, anchor_indices: tf.Tensor, true_sizes: tf.Tensor
    ) -> tf.Tensor:
        """Decode the keypoints of detections.

        Args:
            predictions: of `predict`.
            anchor_indices: int32 [B, D], of `detect_with_anchors`.
            true_sizes: int32 [B, 2], rows and columns of the input that hold the image.

        Returns:
            float32 [B, D, K, 2], (y, x) normalised to the true image; K is 0 for a detector of boxes alone.
        """
        return tf.zeros(tf.concat([tf.shape(anchor_indices), [0, 2]], 0))

    @abc.abstractmethod
    def with_network(self, network: tf_keras.Model) -> Self:
        """The same detector around a rewritten network with the same inputs and outputs."""
