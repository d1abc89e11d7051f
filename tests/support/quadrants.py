"""A family from outside: two networks, its own predictions, several image sizes, masks and keypoints."""

import tensorflow as tf
import tf_keras

from detection_core.allowed_values import CHANNELS, Option
from detection_core.config.messages.registered import option_values
from detection_core.detectors.base import Detector, InputShape, with_total
from detection_core.detectors.family import Family, FamilyDescription
from detection_core.structures import Batch, Detections, Images, box_detections
from tests.support.tiny_training import config_text

MODEL = """
model {
  experimental_model {
    name: "quadrants"
    num_classes: 2
    image_resizer { keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 96 } }
    options { key: "channels" value: "8" }
  }
}
"""
SHAPES = "load_instance_masks: true mask_type: PNG_MASKS num_keypoints: 2"
READERS = f"train_input_reader {{ {SHAPES} }} eval_input_reader {{ {SHAPES} }}"
METRICS = """eval_config {
  metrics_set: ["coco_detection_metrics", "coco_mask_metrics", "coco_keypoint_metrics"]
  min_score_threshold: 0
  keypoint_edge { start: 0 end: 1 }
}"""
FLIP = "random_horizontal_flip { keypoint_flip_permutation: [0, 1] }"
TRAINING = config_text(3)[config_text(3).index("train_config") :].replace("random_horizontal_flip { }", FLIP)
CONFIG = MODEL + TRAINING + READERS + METRICS
QUADRANTS = [[y, x, y + 0.5, x + 0.5] for y in (0.0, 0.5) for x in (0.0, 0.5)]
STAGES = ("Loss/first_stage", "Loss/second_stage")


class QuadrantDetector(Detector):
    """The first network looks at the image, the second at each quadrant of what the first one made."""

    def __init__(self, classes: int, channels: int = 8) -> None:
        super().__init__(name="quadrants")
        self.num_classes = classes
        image = tf_keras.Input([None, None, 3])
        features = tf_keras.layers.Conv2D(channels, 3, strides=8, padding="same", name="look")(image)
        features = tf_keras.layers.BatchNormalization(name="look_bn")(features)
        self.backbone = tf_keras.Model(image, features, name="backbone")
        quadrant = tf_keras.Input([channels])
        outputs = tf_keras.layers.Dense(classes + 4, name="decide")(quadrant)
        self.box_head = tf_keras.Model(quadrant, outputs, name="box_head")

    @property
    def networks(self):
        return {"backbone": self.backbone, "box_head": self.box_head}

    @property
    def input_shape(self) -> InputShape:
        return InputShape(smallest=(64, 64), largest=(96, 96))

    def predict(self, images: Images, training: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        features = self.backbone(images.pixels / 255.0, training=training)
        pooled = tf.image.resize(features, [2, 2], antialias=True)
        pooled = tf.reshape(pooled, [-1, features.shape[-1]])
        outputs = self.box_head(pooled, training=training)
        logits, masks = tf.split(outputs, [self.num_classes, 4], axis=-1)
        return features, tf.reshape(logits, [-1, 4, self.num_classes]), tf.reshape(masks, [-1, 4, 2, 2])

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        features, logits, masks = self.predict(batch.images, training)
        target = tf.one_hot(batch.truth.classes[:, :1], self.num_classes)
        classes = tf.nn.softmax_cross_entropy_with_logits(target + 0.0 * logits, logits)
        parts = [tf.reduce_mean(features**2), tf.reduce_mean(classes) + tf.reduce_mean(masks**2)]
        return with_total(dict(zip(STAGES, parts, strict=True)))

    def detect(self, images: Images) -> Detections:
        _, logits, masks = self.predict(images, training=False)
        scores = tf.nn.softmax(logits)
        best, order = tf.math.top_k(tf.reduce_max(scores, -1), 4)
        classes = tf.gather(tf.argmax(scores, -1, tf.int32), order, batch_dims=1)
        boxes = tf.gather(tf.constant(QUADRANTS), order)
        found = box_detections(boxes, best, classes, tf.fill([tf.shape(best)[0]], 4))
        corners = tf.reshape(found.boxes, [-1, 4, 2, 2])
        masks = tf.gather(tf.sigmoid(masks), order, batch_dims=1)
        return found._replace(masks=masks, keypoints=0.75 * corners + 0.25 * corners[:, :, ::-1])


OPTIONS = {"channels": Option(4, CHANNELS)}
QUADRANT_FAMILY = Family(
    name="quadrants",
    build=lambda message, where, seed: QuadrantDetector(
        message.num_classes, **option_values(OPTIONS, message)
    ),
    describe=lambda message, detector: FamilyDescription(
        summary="four quadrants", rows=[("stages", "2")], parts={"head": "dense"}
    ),
    loss_names=dict(zip(STAGES, ("first", "second"), strict=True)),
    options=OPTIONS,
    keypoints=lambda message: (2, "num_keypoints"),
    masks=lambda message: True,
)
