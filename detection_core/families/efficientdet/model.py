"""EfficientDet, https://arxiv.org/abs/1911.09070, as google/automl published it."""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors import base
from detection_core.families.efficientdet.anchors import normalized_anchors
from detection_core.families.efficientdet.losses import (
    SEGMENTATION_LOSS,
    DetectionLosses,
    EfficientDetBoxCoder,
    moving_normalizer,
)
from detection_core.families.efficientdet.network import pixel_classes, segmentation_loss
from detection_core.families.efficientdet.post_process import SuppressionOptions, detections_px, in_true_image
from detection_core.families.efficientdet.settings import EfficientDetSettings
from detection_core.ops import boxes as box_ops
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.parts.layers.keras_layers import by_channel
from detection_core.parts.layers.layer_hyperparams import (
    Regularizer,
    regularization_loss,
    regularized_variables,
)
from detection_core.parts.layers.layer_names import parse_variable_name
from detection_core.structures import Batch, Detections, GroundTruth, Images


@dataclasses.dataclass(frozen=True, kw_only=True)
class EfficientDetParts:
    """The parts of a detector besides its network.

    Attributes:
        settings: its settings.
        input_size: rows and columns of the network's input.
        anchors_px: float32 [A, 4], pixels of the network's input.
        suppression: options of non-maximum suppression.
        regularizers: on the network's weights, "layer/weight" -> regularizer.
        frozen: weights that are not trained, as "layer/weight".
    """

    settings: EfficientDetSettings
    input_size: tuple[int, int]
    anchors_px: np.ndarray
    suppression: SuppressionOptions
    regularizers: Mapping[str, Regularizer]
    frozen: Collection[str] = ()


class EfficientDetModel(base.OneNetworkDetector[EfficientDetParts]):
    """A one-stage detector with boxes, losses and suppression in pixels of the network's input.

    Attributes:
        network: flat functional model, float32 [B, H, W, 3] preprocessed to (box codes [B, A, 4], class
            logits [B, A, C]) and, with a segmentation head, its logits.
        num_classes: C, without background.
        parts: its parts besides the network.
        positives: moving average of the loss normalizer; None if the batch's normalizer is used.
    """

    scores_are_sigmoids = True

    def __init__(self, network: tf_keras.Model, parts: EfficientDetParts) -> None:
        super().__init__("efficientdet", network, parts, parts.settings.num_classes)
        self.positives = moving_normalizer() if parts.settings.positives_momentum > 0 else None

    @property
    def trainable_variables(self) -> list[tf.Variable]:
        """Return the variables that are not frozen."""
        named = [(parse_variable_name(variable), variable) for variable in super().trainable_variables]
        return [v for n, v in named if not {n.key, n.original.key}.intersection(self.parts.frozen)]

    @property
    def anchors(self) -> np.ndarray:
        """Return the anchors, float32 [A, 4], normalised to the network input."""
        return normalized_anchors(self.parts.settings)

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        """Compare predictions with ground truth; see `Detector.losses`."""
        settings = self.parts.settings
        predictions, segmentation = self._outputs(self._prepared(batch.images), training)
        truth, positives = self._truth_px(batch.truth, training), self.positives if training else None
        found = DetectionLosses(settings)(predictions, truth, positives)
        for logits in segmentation:
            classes = pixel_classes(settings, truth, tuple(logits.shape[1:3]))
            found[SEGMENTATION_LOSS] = segmentation_loss(logits, classes)
        regularizer = regularization_loss(regularized_variables(self.network, self.parts.regularizers))
        return base.with_total({**found, base.REGULARIZATION_LOSS: regularizer})

    def gradient_factor(self, images: int) -> float:
        """Return the segmentation pixels of a batch, 1 without that head; see `Detector.gradient_factor`.

        google/automl adds the losses of boxes and weights to each pixel's loss and differentiates the map.
        This gives the gradient of the mean times the number of pixels, which matters when gradients are
        clipped.
        """
        factor = 1.0
        for _, height, width, _ in self.network.output_shape[2:]:
            factor = float(images * height * width)
        return factor

    def _truth_px(self, truth: GroundTruth, training: bool) -> GroundTruth:
        """Convert objects to input pixels; as in google/automl, training drops crowd boxes by default."""
        left_out = truth.is_crowd if training and self.parts.settings.skip_crowd_during_training else False
        return truth._replace(
            boxes=box_ops.scale(truth.boxes, *self.parts.input_size),
            valid=truth.valid & tf.logical_not(left_out),
        )

    def detect(self, images: Images) -> Detections:
        """Detect objects; see `Detector.detect`."""
        return self.suppress(self.predict(images, training=False), images.true_sizes)

    def serving_outputs(self, images: Images) -> dict[str, tf.Tensor]:
        """Return the outputs of a SavedModel's signature, with the predictions before suppression.

        Returns:
            As `named_detections`, and float32 raw_detection_boxes [B, A, 4], normalised to the network input,
            and raw_detection_scores [B, A, C]. With a segmentation head also segmentation_logits [B, h, w,
            C].
        """
        predictions, segmentation = self._outputs(self._prepared(images), training=False)
        boxes = EfficientDetBoxCoder().decode(predictions.box_codes, predictions.anchors)
        height, width = self.parts.input_size
        return base.named_detections(self.suppress(predictions, images.true_sizes)) | {
            "raw_detection_boxes": box_ops.scale(boxes, 1.0 / height, 1.0 / width),
            "raw_detection_scores": tf.sigmoid(predictions.class_logits),
            **dict(zip(["segmentation_logits"], segmentation, strict=False)),
        }

    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        """Normalise resized pixels, float32 [B, H, W, 3], RGB, 0..255."""
        settings = self.parts.settings
        means, deviations = by_channel(settings.mean_rgb, pixels), by_channel(settings.stddev_rgb, pixels)
        normalized = (pixels - means) / deviations
        return normalized * (2.0 / 255.0) - 1.0 if settings.scale_range else normalized

    def predict(self, images: Images, training: bool) -> AnchorPredictions:
        """Run the network; padding pixels have the value of the mean after normalisation.

        Training uses and updates batch statistics, and applies dropout. Anchors are in pixels.

        Raises:
            ModelError: when the images do not have the network's input size (static check).
        """
        return self.run(self._prepared(images), training)

    def _prepared(self, images: Images) -> tf.Tensor:
        size = self.parts.input_size
        base.check_size(images.pixels, size)
        inside = base.inside_images(images.true_sizes, size)
        blank = -1.0 if self.parts.settings.scale_range else 0.0
        return self.preprocess(images.pixels) * inside + blank * (1.0 - inside)

    def run(self, preprocessed: tf.Tensor, training: bool) -> AnchorPredictions:
        """Run the network on normalised pixels, float32 [B, H, W, 3]; see `predict`."""
        return self._outputs(preprocessed, training)[0]

    def _outputs(self, preprocessed: tf.Tensor, training: bool) -> tuple[AnchorPredictions, list[tf.Tensor]]:
        """Return predictions and, with a segmentation head, its logits."""
        codes, logits, *segmentation = base.in_float32(self.network(preprocessed, training=training))
        anchors = tf.constant(self.parts.anchors_px)
        return AnchorPredictions(box_codes=codes, class_logits=logits, anchors=anchors), segmentation

    def class_scores(self, logits: tf.Tensor) -> tf.Tensor:
        """Convert class logits, float32 [B, A, C], to scores of the same shape."""
        return tf.sigmoid(logits)

    def level_outputs(self, preprocessed: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Run the network without post-processing; see `Family.level_outputs`."""
        found = self.run(preprocessed, training=False)
        settings = self.parts.settings
        anchors = settings.anchors_per_location
        shapes = [(*shape, anchors) for shape in settings.map_shapes(self.parts.input_size)]
        return base.by_level(found.class_logits, shapes), base.by_level(found.box_codes, shapes)

    def suppress(self, predictions: AnchorPredictions, true_sizes: tf.Tensor) -> Detections:
        """Return detections after non-maximum suppression, normalised to the true image.

        `true_sizes` is int32 [B, 2], rows and columns of the input that hold the image.
        """
        found = detections_px(predictions, self.parts.suppression, self.parts.input_size)
        return in_true_image(found, true_sizes)
