"""The input of a TensorFlow Lite file, which is raw pixels if channels are normalised differently.

Metadata allows a mean and a std for each channel. But consumers such as MediaPipe's ObjectDetector support
one for all, and refuse floating-point files with more.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from detection_core.detectors.family import Normalisation

PIXELS: Normalisation = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
"""No normalisation: pixels 0..255."""


def file_normalisation(normalisation: Normalisation) -> Normalisation:
    """Return the mean and std of a file's input, (pixel - mean) / std, from those of the network."""
    return normalisation if _is_alike(normalisation) else PIXELS


def network_input(values: tf.Tensor, normalisation: Normalisation, *, integer: bool) -> tf.Tensor:
    """Convert a file's input to its network's input.

    If channels differ, this is a convolution, which also exists in integers. Its kernel is diagonal, so
    per-channel scales hold each channel's factor exactly; its bias has 32 bits.

    Args:
        values: float32 [1, H, W, 3], as in `file_normalisation`.
        normalisation: mean and std of the network's input, (pixel - mean) / std.
        integer: whether the file will be in 8-bit integers.
    """
    if _is_alike(normalisation):
        return values
    mean, std = (np.asarray(each, np.float32) for each in normalisation)
    kernel = tf.constant(np.diag(1 / std)[np.newaxis, np.newaxis])
    if integer:
        values = tf.quantization.fake_quant_with_min_max_args(values, 0.0, 255.0)
        kernel = tf.quantization.fake_quant_with_min_max_vars_per_channel(
            kernel, -1 / std, 1 / std, narrow_range=True
        )
    return tf.nn.bias_add(tf.nn.conv2d(values, kernel, 1, "VALID"), -mean / std)


def _is_alike(normalisation: Normalisation) -> bool:
    return all(len(set(each)) == 1 for each in normalisation)
