"""A detector around the tiny network: real anchors and box decoding, suppression left out."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.base import Detector, InputShape, with_total
from detection_core.families.ssd.model import RawDetections, SsdModel
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.structures import Batch, Detections, Images, box_detections
from tests.support.tiny_network import CLASSES, tiny_network

SCALES = (10.0, 10.0, 5.0, 5.0)
DETECTIONS = 10


def grid_anchors() -> np.ndarray:
    """Two square anchors a location on the 8 x 8 and the 4 x 4 level, float32 [160, 4]."""
    boxes = []
    for cells, sides in ((8, (0.2, 0.3)), (4, (0.4, 0.6))):
        for y in range(cells):
            for x in range(cells):
                centre = np.array([(y + 0.5) / cells, (x + 0.5) / cells])
                boxes += [np.concatenate([centre - side / 2, centre + side / 2]) for side in sides]
    return np.array(boxes, np.float32)


class TinyDetector(Detector):
    """Takes 32 x 32 pixels, normalises them to -1..1, knows three classes."""

    def __init__(self, network: tf_keras.Model | None = None) -> None:
        super().__init__(name="tiny_detector")
        self.network = network or tiny_network()
        self.num_classes = CLASSES
        self.input_size = (32, 32)
        self.anchors = grid_anchors()

    has_background = True
    scores_are_sigmoids = True

    @property
    def networks(self) -> dict[str, tf_keras.Model]:
        return {"tiny": self.network}

    @property
    def input_shape(self) -> InputShape:
        return InputShape.fixed((32, 32))

    def preprocess(self, pixels: tf.Tensor) -> tf.Tensor:
        return pixels / 127.5 - 1.0

    def predict(self, images: Images, training: bool) -> AnchorPredictions:
        codes, logits = self.network(self.preprocess(images.pixels), training=training)
        return AnchorPredictions(box_codes=codes, class_logits=logits, anchors=tf.constant(self.anchors))

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        predictions = self.predict(batch.images, training)
        loss = tf.reduce_mean(tf.square(predictions.box_codes)) + tf.reduce_mean(
            tf.square(predictions.class_logits)
        )
        return with_total({"Loss/size_loss": loss})

    serving_outputs = SsdModel.serving_outputs

    def detect(self, images: Images) -> Detections:
        return self.suppress(self.predict(images, training=False), images.true_sizes)[0]

    def raw_detections(self, predictions: AnchorPredictions) -> RawDetections:
        codes = predictions.box_codes / tf.constant(SCALES)
        low, high = predictions.anchors[:, :2], predictions.anchors[:, 2:]
        sizes = tf.exp(codes[..., 2:]) * (high - low)
        centres = codes[..., :2] * (high - low) + (low + high) / 2
        boxes = tf.concat([centres - sizes / 2, centres + sizes / 2], -1)
        scores = self.class_scores(predictions.class_logits)
        return RawDetections(boxes=boxes, scores=scores)

    def class_scores(self, logits: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(logits)

    def suppress(self, predictions: AnchorPredictions, true_sizes: tf.Tensor) -> tuple[Detections, tf.Tensor]:
        raw = self.raw_detections(predictions)
        best = tf.reduce_max(raw.scores[..., 1:], -1)
        scores, anchors = tf.math.top_k(best, DETECTIONS)
        classes = tf.gather(tf.argmax(raw.scores[..., 1:], -1, tf.int32), anchors, batch_dims=1)
        boxes = tf.clip_by_value(tf.gather(raw.boxes, anchors, batch_dims=1), 0.0, 1.0)
        count = tf.fill([tf.shape(scores)[0]], DETECTIONS)
        return box_detections(boxes, scores, classes, count), anchors

    def with_network(self, network: tf_keras.Model) -> TinyDetector:
        return TinyDetector(network)
