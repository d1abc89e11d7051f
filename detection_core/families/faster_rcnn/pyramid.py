"""Two-stage detectors on a feature pyramid: their layers, and the level from which a region is cropped.

Feature pyramid network, https://arxiv.org/abs/1612.03144.
"""

import dataclasses
import math

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.necks import FpnOptions

INPUT_MULTIPLE = 32
"""Images are padded to a multiple of it, below and to the right, so that each level halves exactly."""
_REGION_UNITS = 1024
_PRETRAINED_SIDE = 224.0
"""Side of the images that backbones are pretrained on, pixels."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pyramid:
    """The pyramid of a detector.

    Attributes:
        options: its levels and channels.
        hyperparams: of its convolutions.
        override: whether they also apply to the backbone.
    """

    options: FpnOptions
    hyperparams: LayerHyperparams
    override: bool


def region_layers(regions: tf.Tensor, layers: NetworkLayers) -> tf.Tensor:
    """Build two dense layers on pooled regions [N, s, s, K]; returns features [N, 1, 1, 1024].

    Of the hyperparameters only the normalisation counts, which follows the first activation.
    """
    plain = layers.under(LayerHyperparams(batch_norm=layers.hyperparams.batch_norm))
    features = tf_keras.layers.Flatten(name="region_flat")(regions)
    features = plain.dense("region_dense_0", _REGION_UNITS)(features)
    features = tf_keras.layers.ReLU(name="region_dense_0_act")(features)
    features = plain.dense("region_dense_1", _REGION_UNITS)(plain.norm("region_dense_0_bn")(features))
    features = tf_keras.layers.ReLU(name="region_dense_1_act")(features)
    return tf_keras.layers.Reshape((1, 1, _REGION_UNITS), name="region_rows")(features)


def padded_side(side: int | None, multiple: int) -> int | None:
    """Round a side up to a multiple; None stays None, where sides differ between images."""
    return None if side is None else -(-side // multiple) * multiple


def pad_pixels(pixels: tf.Tensor, multiple: int) -> tf.Tensor:
    """Add zeros below and to the right of [B, H, W, 3] until both sides are multiples."""
    known = pixels.shape[1:3]
    if all(side is not None and side % multiple == 0 for side in known):
        return pixels
    below, right = (-side % multiple for side in tf.unstack(tf.shape(pixels)[1:3]))
    padded = tf.pad(pixels, [[0, 0], [0, below], [0, right], [0, 0]])
    sides = [padded_side(side, multiple) for side in known]
    return tf.ensure_shape(padded, [pixels.shape[0], *sides, pixels.shape[3]])


def region_levels(boxes: tf.Tensor, size: tuple[tf.Tensor, tf.Tensor], levels: int) -> tf.Tensor:
    """Choose the map of each region, as in section 4.2 of the paper.

    Args:
        boxes: float32 [B, P, 4], normalised to the input.
        size: rows and columns of the input, pixels.
        levels: number of maps. A region as large as a pretraining image takes the last but one.

    Returns:
        int32 [B, P], index of a map, the finest first; 0 for an empty region.
    """
    rows, columns = (tf.cast(side, tf.float32) for side in size)
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=-1)
    ratio = tf.sqrt(rows * columns) / _PRETRAINED_SIDE
    side = tf.sqrt((ymax - ymin) * (xmax - xmin)) * ratio
    octave = tf.math.floordiv(tf.math.log(tf.maximum(side, 1e-6)), math.log(2.0))
    return tf.clip_by_value(tf.cast(octave, tf.int32) + levels - 2, 0, levels - 1)
