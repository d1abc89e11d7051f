"""A detector of a few weights that obeys the model interface, for tests of the loop."""

import tensorflow as tf
import tf_keras

from detection_core.ops.objects import new_truth
from detection_core.structures import Batch, Images

ANCHORS = 4
CLASSES = 2


class TinyModel(tf.Module):
    """Four anchors, two classes; the first object of an image is every anchor's target."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(name="tiny")
        initializer = tf_keras.initializers.GlorotUniform(seed=seed)
        inputs = tf_keras.Input([8, 8, 3])
        x = tf_keras.layers.Conv2D(
            4, 3, strides=4, padding="same", name="stem", kernel_initializer=initializer
        )(inputs)
        x = tf_keras.layers.BatchNormalization(name="stem_bn")(x)
        x = tf_keras.layers.Conv2D(4 + CLASSES + 1, 1, name="head", kernel_initializer=initializer)(x)
        outputs = tf_keras.layers.Reshape([ANCHORS, 4 + CLASSES + 1], name="flat")(x)
        self.network = tf_keras.Model(inputs, outputs, name="tiny")

    @property
    def variables(self) -> list[tf.Variable]:
        return list(self.network.variables)

    @property
    def networks(self) -> dict[str, tf_keras.Model]:
        return {"tiny": self.network}

    @property
    def trainable_variables(self) -> list[tf.Variable]:
        return list(self.network.trainable_variables)

    def gradient_factor(self, images: int) -> float:
        return 1.0

    def losses(self, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        truth = batch.truth
        out = tf.cast(self.network(batch.images.pixels / 128.0 - 1.0, training=training), tf.float32)
        codes, logits = out[..., :4], out[..., 4:]
        box = tf.reduce_mean(tf.square(codes - truth.boxes[:, :1]))
        target = tf.one_hot(truth.classes[:, :1] + 1, CLASSES + 1)
        scores = tf.nn.softmax_cross_entropy_with_logits(target + tf.zeros_like(logits), logits)
        parts = {"Loss/localization_loss": box, "Loss/classification_loss": tf.reduce_mean(scores)}
        parts["Loss/regularization_loss"] = 0.01 * tf.reduce_sum(
            tf.square(self.network.get_layer("head").kernel)
        )
        return parts | {"Loss/total_loss": tf.add_n(list(parts.values()))}


def make_dataset(start_step: int, batch_size: int = 4, poison_at: int = -1) -> tf.data.Dataset:
    """An endless dataset whose batch depends on its step alone; NaN pixels in the batch of `poison_at`."""

    @tf.autograph.experimental.do_not_convert
    def batch(step: tf.Tensor) -> Batch:
        seed = tf.stack([tf.cast(step, tf.int32), 7])
        pixels = tf.random.stateless_uniform([batch_size, 8, 8, 3], seed, 0.0, 255.0)
        pixels = tf.where(step == poison_at, pixels * float("nan"), pixels)
        corner = tf.random.stateless_uniform([batch_size, 1, 2], seed + 1, 0.0, 0.5)
        classes = tf.random.stateless_uniform([batch_size, 1], seed + 2, 0, CLASSES, tf.int32)
        sizes = tf.fill([batch_size, 2], 8)
        images = Images(pixels, sizes, sizes, tf.fill([batch_size], "id"))
        ones = tf.ones([batch_size, 1])
        boxes, known = tf.concat([corner, corner + 0.4], axis=-1), tf.ones([batch_size, 1], tf.bool)
        more = {"is_crowd": ~known, "masks": tf.zeros([batch_size, 1, 0, 0], tf.uint8), "valid": known}
        return Batch(images, new_truth(boxes=boxes, classes=classes, weights=ones, area=ones, **more))

    return tf.data.Dataset.counter(start_step, 1).map(batch)
