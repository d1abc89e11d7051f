"""A small functional network with every trait of the real ones that folding and quantization meet."""

import numpy as np
import tf_keras
from tf_keras import layers

ANCHORS = 2 * (8 * 8 + 4 * 4)
CLASSES = 3


def tiny_network(*, size: int = 32, seed: int = 0, width: int = 8) -> tf_keras.Model:
    """Strided convs with explicit padding, a residual, a top-down sum, heads shared over two levels."""
    pixels = tf_keras.Input((size, size, 3), name="pixels")
    x = layers.ZeroPadding2D(((0, 1), (0, 1)), name="stem_pad")(pixels)
    x = layers.Conv2D(width, 3, strides=2, use_bias=False, name="stem")(x)
    x = layers.ReLU(6.0, name="stem_relu")(layers.BatchNormalization(name="stem_bn")(x))
    y = layers.DepthwiseConv2D(3, padding="same", use_bias=False, name="dw")(x)
    y = layers.ReLU(6.0, name="dw_relu")(layers.BatchNormalization(name="dw_bn")(y))
    y = layers.Conv2D(width, 1, use_bias=False, kernel_regularizer="l2", name="project")(y)
    y = layers.BatchNormalization(epsilon=1e-3, name="project_bn")(y)
    x = layers.Add(name="residual")([x, y])
    fine = layers.Conv2D(width, 3, strides=2, padding="same", name="fine")(x)
    coarse = layers.MaxPooling2D(2, name="coarse_pool")(fine)
    coarse = layers.Conv2D(width, 1, name="coarse")(coarse)
    up = layers.UpSampling2D(2, interpolation="nearest", name="up")(coarse)
    fine = layers.Add(name="top_down")([fine, up])
    tower = layers.Conv2D(width, 3, padding="same", use_bias=False, name="tower")
    box_conv = layers.Conv2D(2 * 4, 1, name="box")
    class_conv = layers.Conv2D(2 * (CLASSES + 1), 1, name="class")
    boxes, logits = [], []
    for level, features in enumerate((fine, coarse)):
        h = tower(features)
        h = layers.BatchNormalization(name=f"tower_bn_{level}")(h)
        h = layers.ReLU(6.0, name=f"tower_relu_{level}")(h)
        boxes.append(layers.Reshape((-1, 4), name=f"box_codes_{level}")(box_conv(h)))
        logits.append(layers.Reshape((-1, CLASSES + 1), name=f"logits_{level}")(class_conv(h)))
    outputs = [
        layers.Concatenate(axis=1, name="box_codes")(boxes),
        layers.Concatenate(axis=1, name="class_logits")(logits),
    ]
    network = tf_keras.Model(pixels, outputs, name="tiny")
    randomise(network, seed)
    return network


def randomise(network: tf_keras.Model, seed: int) -> None:
    """Give every weight and statistic a value that no initializer would, so that a lost one shows."""
    rng = np.random.default_rng(seed)
    for weight in network.weights:
        shape = tuple(weight.shape)
        if "variance" in weight.name or "gamma" in weight.name:
            value = rng.uniform(0.5, 2.0, shape)
        elif "kernel" in weight.name:
            value = rng.normal(0.0, 1.0, shape) / np.sqrt(max(np.prod(shape[:-1]), 1)) * 1.5
        else:
            value = rng.normal(0.0, 0.3, shape)
        weight.assign(value.astype(np.float32))


def observe_ranges(folded, placement, batches):
    """Measure ranges on float32 [B, H, W, 3], as calibration does."""
    from detection_core.quantization.aware import mean_ranges, measure_extremes

    return mean_ranges(folded, placement, dict(enumerate(map(measure_extremes(folded, placement), batches))))
