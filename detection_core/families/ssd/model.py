"""One-stage detectors on anchors: SSD, RetinaNet, EfficientDet."""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors import base
from detection_core.ops.nms import multiclass_nms
from detection_core.ops.post_processing import PostProcessing, ScoreConverter
from detection_core.parts.anchor_criterion import AnchorCriterion, AnchorPredictions
from detection_core.parts.box_coders import BoxCoder
from detection_core.parts.layers.keras_layers import PREPROCESSORS
from detection_core.parts.layers.layer_hyperparams import (
    Regularizer,
    regularization_loss,
    regularized_variables,
)
from detection_core.structures import Batch, Detections, GroundTruth, Images, box_detections

LOCALIZATION_LOSS = "Loss/localization_loss"
CLASSIFICATION_LOSS = "Loss/classification_loss"


class RawDetections(NamedTuple):
    """Detections of all anchors before suppression.

    Attributes:
        boxes: float32 [B, A, 4], decoded, normalised to the (padded) network input, not clipped.
        scores: float32 [B, A, C + 1], converted, background first, 0 if the network has no background.
    """

    boxes: tf.Tensor
    scores: tf.Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorLevel:
    """Rows and columns of one feature map, and its anchors."""

    rows: int
    columns: int
    anchors: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SsdParts:
    """The parts of a one-stage detector besides its network.

    Attributes:
        num_classes: C, without the background.
        input_size: rows and columns of the network input.
        preprocessing: name in `parts.layers.keras_layers.PREPROCESSORS`.
        code_clip: smallest and largest box code.
        background: whether the first class logit is the background's.
        anchors: float32 [A, 4], normalised to the network input, feature map after feature map.
        levels: rows, columns and anchors per location of each feature map, finest first.
        box_coder: encodes and decodes boxes.
        post_processing: converts logits to scores, and applies non-maximum suppression.
        criterion: the training loss without regularizers.
        regularizers: on the network's weights, "layer/weight" -> regularizer.
    """

    num_classes: int
    input_size: tuple[int, int]
    preprocessing: str
    code_clip: tuple[float, float] = (-math.inf, math.inf)
    background: bool = True
    anchors: np.ndarray
    levels: tuple[AnchorLevel, ...]
    box_coder: BoxCoder
    post_processing: PostProcessing
    criterion: AnchorCriterion
    regularizers: Mapping[str, Regularizer]


class SsdModel(base.OneNetworkDetector[SsdParts]):
    """A detector whose network predicts for fixed anchors.

    Liu et al., SSD: Single Shot MultiBox Detector, 2016, https://arxiv.org/abs/1512.02325; with other
    backbones, necks and losses also RetinaNet (https://arxiv.org/abs/1708.02002) and EfficientDet
    (https://arxiv.org/abs/1911.09070).

    Attributes:
        network: flat functional model of stock layers, float32 [B, H, W, 3] preprocessed to
            (box codes [B, A, code size], class logits [B, A, C + 1]).
        num_classes: C, without the background.
        input_size: rows and columns of the network input.
        has_background: whether the network has a class slot for the background.
    """

    def __init__(self, network: tf_keras.Model, parts: SsdParts) -> None:
        super().__init__("ssd", network, parts, parts.num_classes)
        # A separate attribute, because existing checkpoints track it as an object.
        self.input_size = parts.input_size
        self.has_background = parts.background

    @property
    def levels(self) -> tuple[AnchorLevel, ...]:
        """Return the anchors on each feature map, finest first."""
        return self.parts.levels

    @property
    def anchors(self) -> np.ndarray:
        """Return the anchors, float32 [A, 4], normalised to the network input."""
        return self.parts.anchors

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Compare predictions with ground truth; see `Detector.losses`."""
        return self.compare(self.predict(batch.images, training), batch.truth)

    def detect(self, images: Images) -> Detections:
        """Detect objects; see `Detector.detect`."""
        return self.suppress(self.predict(images, training=False), images.true_sizes)[0]

    def serving_outputs(self, images: Images) -> dict[str, tf.Tensor]:
        """Return the outputs of a SavedModel's signature, with the predictions before suppression.

        Returns:
            As `named_detections`, and float32 detection_anchor_indices [B, D], detection_multiclass_scores
            [B, D, C + 1], raw_detection_boxes [B, A, 4] and raw_detection_scores [B, A, C + 1]. The
            background comes first; without it there are C columns. Rows past num_detections are 0, except
            classes.
        """
        predictions = self.predict(images, training=False)
        raw = self.raw_detections(predictions)
        raw_scores = raw.scores if self.has_background else raw.scores[:, :, 1:]
        detections, anchors = self.suppress(predictions, images.true_sizes)
        filled = tf.sequence_mask(detections.count, tf.shape(anchors)[1])[..., tf.newaxis]
        scores = tf.where(filled, tf.gather(raw_scores, anchors, batch_dims=1), 0.0)
        return base.named_detections(detections) | {
            "detection_anchor_indices": tf.cast(anchors, tf.float32),
            "detection_multiclass_scores": scores,
            "raw_detection_boxes": raw.boxes,
            "raw_detection_scores": raw_scores,
        }

    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        """Normalise resized and padded pixels, float32 [B, H, W, 3], RGB, 0..255, as the backbone expects."""
        return PREPROCESSORS[self.parts.preprocessing](pixels)

    def predict(self, images: Images, training: bool) -> AnchorPredictions:
        """Run the network on images of `input_size`.

        Training uses and updates batch statistics, and applies dropout.

        Raises:
            ModelError: when the images do not have the network's input size (static check).
        """
        base.check_size(images.pixels, self.parts.input_size)
        codes, logits = base.in_float32(self.network(self.preprocess(images.pixels), training=training))
        lowest, highest = self.parts.code_clip
        if math.isfinite(lowest) or math.isfinite(highest):
            codes = tf.clip_by_value(codes, lowest, highest)
        return AnchorPredictions(
            box_codes=codes, class_logits=logits, anchors=tf.constant(self.parts.anchors)
        )

    def level_outputs(self, preprocessed: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Run the network alone; see `Family.level_outputs`. Classes include the background."""
        codes, logits = self.network(preprocessed, training=False)
        shapes = [
            (level.rows, level.columns, level.anchors // (level.rows * level.columns))
            for level in self.levels
        ]
        return base.by_level(logits, shapes), base.by_level(codes, shapes)

    def compare(self, predictions: AnchorPredictions, truth: GroundTruth) -> dict[str, tf.Tensor]:
        """Compare predictions with ground truth of the same images; return the same as `Detector.losses`."""
        found = self.parts.criterion(predictions, truth)
        regularizer = regularization_loss(regularized_variables(self.network, self.parts.regularizers))
        return base.with_total(
            {
                LOCALIZATION_LOSS: found.localization,
                CLASSIFICATION_LOSS: found.classification,
                base.REGULARIZATION_LOSS: regularizer,
            }
        )

    @property
    def scores_are_sigmoids(self) -> bool:
        """Tell whether scores are plain sigmoids of the logits."""
        return self.parts.post_processing.score_converter == ScoreConverter(activation=tf.sigmoid)

    def class_scores(self, logits: tf.Tensor) -> tf.Tensor:
        """Convert class logits, float32 [B, A, C] or [B, A, C + 1], to scores of the same shape."""
        return self.parts.post_processing.score_converter(logits)

    def raw_detections(self, predictions: AnchorPredictions) -> RawDetections:
        """Decode the boxes and convert the logits of every anchor."""
        scores = self.class_scores(predictions.class_logits)
        if not self.parts.background:
            scores = tf.pad(scores, [[0, 0], [0, 0], [1, 0]])
        boxes = self.parts.box_coder.decode(predictions.box_codes, predictions.anchors)
        return RawDetections(boxes=boxes, scores=scores)

    def suppress(self, predictions: AnchorPredictions, true_sizes: tf.Tensor) -> tuple[Detections, tf.Tensor]:
        """Return detections after non-maximum suppression, normalised to the true image, and their anchors.

        `true_sizes` is int32 [B, 2], rows and columns of the input that hold the image. The anchors are int32
        [B, D].
        """
        raw = self.raw_detections(predictions)
        fraction = tf.cast(true_sizes, tf.float32) / tf.constant(self.input_size, tf.float32)
        window = tf.concat([tf.zeros_like(fraction), fraction], axis=-1)
        found = multiclass_nms(raw.boxes, raw.scores[:, :, 1:], self.parts.post_processing.nms, window)
        detections = box_detections(found.boxes, found.scores, found.classes, found.count)
        coder = self.parts.box_coder
        if coder.num_keypoints:
            codes = tf.gather(predictions.box_codes, found.anchor_indices, batch_dims=1)
            anchors = predictions.anchors_at(found.anchor_indices)
            keypoints = coder.decode_keypoints(codes, anchors) / fraction[:, tf.newaxis, tf.newaxis, :]
            detections = detections._replace(keypoints=keypoints)
        return detections, found.anchor_indices
