"""The segmentation head of google/automl's EfficientDet: a class for each pixel of a smaller map."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from detection_core.errors import ConfigError
from detection_core.families.efficientdet.feature_network import with_activation
from detection_core.families.efficientdet.settings import EfficientDetSettings
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.structures import GroundTruth

HEAD = "segmentation"


def segmentation_head(
    settings: EfficientDetSettings, features: list[tf.Tensor], layers: NetworkLayers
) -> tf.Tensor:
    """Upsample the coarsest map to twice the finest map's size, and merge each level on the way.

    Features are ordered finest first; each map has twice the rows and columns of the next.

    Returns:
        float32 [B, 2 h, 2 w, seg_num_classes], logits; h and w are those of the finest map.
    """
    maker = with_activation(layers, settings)
    doubled = features[-1]
    for index, finer in enumerate(reversed(features[:-1])):
        name = f"segmentation_{index}"
        doubled = _doubling(maker, name, settings.fpn_num_filters, use_bias=False)(doubled)
        doubled = maker.norm_activation(doubled, name)
        doubled = tf_keras.layers.Concatenate(name=f"{name}_join")([doubled, finer])
    return _doubling(maker, "segmentation_head", settings.seg_num_classes, use_bias=True)(doubled)


def _doubling(
    layers: NetworkLayers, name: str, filters: int, *, use_bias: bool
) -> tf_keras.layers.Conv2DTranspose:
    initializer = layers.hyperparams.initializer.build(layers.seed, f"{name}/kernel")
    return tf_keras.layers.Conv2DTranspose(
        filters,
        3,
        strides=2,
        padding="same",
        use_bias=use_bias,
        kernel_initializer=initializer,
        name=name,
    )


def pixel_classes(settings: EfficientDetSettings, truth: GroundTruth, size: tuple[int, int]) -> tf.Tensor:
    """Convert the masks of objects, in the frame of the network's input, to a class for each pixel.

    Returns:
        int32 [B, rows, columns], 0 without an object, else class + 1; the highest class where objects
        overlap.

    Raises:
        ConfigError: when masks are not read, or there are more classes than the head has.
    """
    if 0 in truth.masks.shape[2:]:
        raise ConfigError(
            "expected masks to train the segmentation head on, found none; set load_instance_masks: true",
            where="train_input_reader.load_instance_masks",
        )
    if settings.seg_num_classes <= settings.num_classes:
        raise ConfigError(
            f"expected more than the {settings.num_classes} classes of objects, as 0 is the background, found"
            f" {settings.seg_num_classes}; set seg_num_classes: {settings.num_classes + 1}",
            where="model.efficientdet.seg_num_classes",
        )
    of_objects = tf.where(truth.valid, truth.classes + 1, 0)[:, :, tf.newaxis, tf.newaxis]
    classes = tf.reduce_max(tf.where(truth.masks > 0, of_objects, 0), axis=1)
    resized = tf.image.resize(classes[..., tf.newaxis], size, method="nearest")
    return tf.squeeze(resized, axis=-1)


def segmentation_loss(logits: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Average the cross entropy of logits, float32 [B, h, w, C], over all pixels of int32 [B, h, w].

    google/automl adds the losses of boxes and weights to each pixel's loss and minimises the sum. The
    gradient is the same up to a factor, the number of pixels; see `EfficientDetModel.gradient_factor`.
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits)
    return tf.reduce_mean(losses)
