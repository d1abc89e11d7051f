"""Correct biases for the mean error that rounded kernels cause in each channel.

Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019,
https://arxiv.org/abs/1906.04721, section 4.2, with means measured on images (its appendix D). A rounded
kernel has the same error for all inputs. If these are of one sign, as after a ReLU, the output has a mean
error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.errors import ModelError
from detection_core.quantization.aware import PREFIX, AwareNetwork
from detection_core.quantization.folding import KERNEL_NAMES, FoldedNetwork


def correct_biases(
    folded: FoldedNetwork, aware: AwareNetwork, batches: Iterable[Any]
) -> dict[str, np.ndarray]:
    """Subtract from each convolution's bias the mean error of its rounded kernel, in place.

    Each kernel is compared on its inputs in the quantized network. Corrections are then independent, and one
    pass over the images serves all convolutions.

    Args:
        folded: the float network, with the kernels before rounding.
        aware: its calibrated copy with fake quantization; its biases change.
        batches: float32 [B, H, W, 3], preprocessed.

    Returns:
        Name of each convolution to the correction of its bias, float32 [C].

    Raises:
        ModelError: if there is no batch.
    """
    names = [name for name in aware.placement.quantized if _has_bias(folded.network, name)]
    twins = [aware.network.get_layer(PREFIX + name) for name in names]
    observer = tf_keras.Model(aware.network.inputs, [twin.input for twin in twins])

    @tf.function(reduce_retracing=True)
    def errors(pixels: tf.Tensor) -> list[tf.Tensor]:
        inputs = tf.nest.flatten(observer(pixels, training=False))
        return [
            tf.reduce_mean(twin.unquantized_output(given) - folded.network.get_layer(name)(given), [0, 1, 2])
            for name, twin, given in zip(names, twins, inputs, strict=True)
        ]

    total, images = [np.zeros(twin.layer.bias.shape, np.float64) for twin in twins], 0
    for pixels in batches:
        number = int(tf.shape(pixels)[0])
        means = [mean.numpy() for mean in errors(tf.convert_to_tensor(pixels))]
        total = [before + number * mean for before, mean in zip(total, means, strict=True)]
        images += number
    if names and not images:
        raise ModelError(
            "expected at least one batch to correct biases on, found none; check the train split"
        )
    found = {name: (-mean / images).astype(np.float32) for name, mean in zip(names, total, strict=True)}
    add_to_biases(aware, found)
    return found


def add_to_biases(aware: AwareNetwork, corrections: dict[str, np.ndarray]) -> None:
    """Add corrections to the biases of convolutions that run in integers.

    Args:
        aware: its biases change.
        corrections: from `correct_biases`.
    """
    for name, correction in corrections.items():
        if name in aware.placement.quantized:
            aware.network.get_layer(PREFIX + name).layer.bias.assign_add(correction)


def _has_bias(network: tf_keras.Model, name: str) -> bool:
    layer = network.get_layer(name)
    if type(layer) not in KERNEL_NAMES or not layer.use_bias:
        return False
    return bool(tf_keras.activations.serialize(layer.activation) == "linear")
