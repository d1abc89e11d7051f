"""What a TensorFlow Lite file takes: pixels where channels differ in their normalisation.

Metadata can say a mean and a std for each channel, but readers such as MediaPipe's ObjectDetector know one
for all, and refuse floating-point files that say more.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from detection_core.detectors.family import Normalisation

PIXELS: Normalisation = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
"""Pixels as they are, 0..255."""


def file_normalisation(normalisation: Normalisation) -> Normalisation:
    """Return mean and std with which (pixel - mean) / std is what a file takes.

    Args:
        normalisation: with which it is what the network takes.
    """
    return normalisation if _is_alike(normalisation) else PIXELS


def network_input(values: tf.Tensor, normalisation: Normalisation, *, integer: bool) -> tf.Tensor:
    """Return what the network takes of what its file takes.

    Where channels differ this is a convolution, which exists in integers: its kernel is a diagonal, so that a
    scale for each output channel holds each channel's factor exactly, and its bias has 32 bits.

    Args:
        values: float32 [1, H, W, 3], as `file_normalisation` says.
        normalisation: with which (pixel - mean) / std is what the network takes.
        integer: the file is going to have 8 bits.
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
