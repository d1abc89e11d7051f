"""Multi-scale training: images of several sizes, with one set of weights."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.parts.layers.static_shapes import static_shapes
from detection_core.structures import Batch
from detection_core.training.step import Losses, TrainableModel

_FOR_EVER = 2**62


class MultiScaleModel:
    """Chooses the input size of each step in multi-scale training.

    YOLOX and Ultralytics train likewise: Redmon and Farhadi, YOLO9000, 2017,
    https://arxiv.org/abs/1612.08242, section 2; Ge et al., YOLOX, 2021, https://arxiv.org/abs/2107.08430.
    """

    def __init__(
        self, model: TrainableModel, losses: Sequence[Losses], *, seed: int, steps_per_scale: int
    ) -> None:
        """Set up the sizes: one of the losses for each, the largest first.

        The choice, which holds for a number of updates, depends on the seed and the step alone.
        """
        self.model = model
        self._losses = tuple(losses)
        self._seed = seed
        self._steps = steps_per_scale

    @classmethod
    def of_one_size(cls, model: TrainableModel) -> "MultiScaleModel":
        """Wrap a model with a single size."""
        return cls(model, [model.losses], seed=0, steps_per_scale=_FOR_EVER)

    @property
    def largest(self) -> Losses:
        """The losses of the size that needs most memory."""
        return self._losses[0]

    def losses(self, step: int) -> Losses:
        """Return the losses for the update that follows `step` others."""
        chosen = np.random.default_rng([self._seed, step // self._steps]).integers(len(self._losses))
        return self._losses[int(chosen)]

    def steps_until_next(self, step: int) -> int:
        """Return the number of updates, from this one on, before another size is drawn."""
        return self._steps - step % self._steps


def resized(batch: Batch, size: tuple[int, int]) -> Batch:
    """Resize a batch, pixels float32 [B, H, W, 3], to rows and columns; normalised coordinates stay."""
    images, truth = batch
    scale = tf.constant(size, tf.float32) / tf.cast(tf.shape(images.pixels)[1:3], tf.float32)
    true_sizes = tf.cast(tf.round(tf.cast(images.true_sizes, tf.float32) * scale), tf.int32)
    images = images._replace(pixels=tf.image.resize(images.pixels, size), true_sizes=true_sizes)
    if truth.masks.shape[2:] != [0, 0]:
        # As a batch of one-channel images; labels must be resized without blending.
        rows = tf.reshape(truth.masks, [-1, *truth.masks.shape[2:], 1])
        masks = tf.image.resize(rows, size, method="nearest")
        truth = truth._replace(masks=tf.reshape(masks, tf.concat([tf.shape(truth.masks)[:2], size], 0)))
    return Batch(images, truth)


@static_shapes()
def sharing_layers(network: tf_keras.Model, owner: tf_keras.Model) -> tf_keras.Model:
    """Return a network that shares the weights of another, built alike for images of another size.

    The result has the layers without weights of `network`, and those with weights of `owner`, matched by
    name.
    """
    owned = {layer.name: layer for layer in owner.layers}

    def layer_of(layer: tf_keras.layers.Layer) -> tf_keras.layers.Layer:
        return owned[layer.name] if layer.weights else type(layer).from_config(layer.get_config())

    return tf_keras.models.clone_model(network, clone_function=layer_of)
