"""Bring the channels of a float network to similar ranges, so that one scale per tensor fits them.

Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019,
https://arxiv.org/abs/1906.04721, section 4.1. For a ReLU, f(s x) = s f(x). So channel c of a convolution's
output may be multiplied by s_c if all readers divide their kernels by it. The paper equalises the ranges of
kernels, which have one scale each there. Here kernels have a scale for each output channel, and activations
one for all channels. So the ranges of activations, measured on images, are equalised.

A ReLU6 does not scale so. But a channel below 6 on all images may be scaled up as long as it stays below.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.ops.tracing import compile_for_batches, results_of
from detection_core.quantization.aware import PREFIX, AwareNetwork
from detection_core.quantization.folding import KERNEL_NAMES, FoldedNetwork
from detection_core.quantization.graph import LayerCall, NetworkGraph, read_graph
from detection_core.quantization.quantizers import unquantized_outputs

# Tried powers of the factor that would raise a channel to the largest one's range.
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
# Margin above a channel's maximum on the images, before a scaled ReLU6 clips it.
HEADROOM = 1.25
LARGEST_SCALE = 64.0
# In tf_keras a depthwise convolution is not a subclass of it.
_DENSE = tf_keras.layers.Conv2D
_PASSED_ON = (tf_keras.layers.ZeroPadding2D, tf_keras.layers.MaxPooling2D)


def equalise(folded: FoldedNetwork, batches: Iterable[Any]) -> dict[str, np.ndarray]:
    """Scale channels up to the range of their tensor's largest one, in place; outputs stay equal.

    Readers' kernels have one scale for all input channels, so they may lose the precision that activations
    gain. Of several powers of the factors, the one with the least noise in the readers is used. Where each
    channel has a separate kernel (depthwise), channels get the full factor.

    Args:
        folded: network in inference form; its kernels and biases change.
        batches: float32 [B, H, W, 3], preprocessed.

    Returns:
        Name of each convolution whose output was scaled to its scales, float32 [C], at least 1.

    Raises:
        ModelError: if there is no batch.
    """
    graph = read_graph(folded.network)
    chains = list(filter(None, (_chain(call, graph) for call in graph.calls.values())))
    if not chains:
        return {}
    channels = _measured(folded.network, [chain.last for chain in chains], batches)
    scales = {}
    for chain, measured in zip(chains, channels, strict=True):
        layer, readers = graph.calls[chain.first].layer, [graph.calls[name].layer for name in chain.readers]
        factors = _factors(measured, chain.cap, readers)
        scales[chain.first] = factors
        _multiply_outputs(layer, factors)
        for reader in readers:
            kernel = getattr(reader, KERNEL_NAMES[type(reader)])
            kernel.assign(kernel / factors[:, np.newaxis])
    return scales


class _Chain(NamedTuple):
    """A convolution, the last call before its readers, the readers, and the cap of the activation."""

    first: str
    last: str
    readers: list[str]
    cap: float


class _Channels(NamedTuple):
    """Statistics of channels on the images, float [C]: largest magnitude and mean square."""

    largest: np.ndarray
    square: np.ndarray


def _chain(call: LayerCall, graph: NetworkGraph) -> _Chain | None:
    """Follow a convolution's output to the convolutions that read it; None if other layers do, too."""
    if not _is_linear_convolution(call.layer):
        return None
    consumers, last, cap = graph.consumers(), call.name, math.inf
    while last not in graph.outputs:
        readers = [graph.calls[reader].layer for reader in consumers[last]]
        if readers and all(type(reader) in KERNEL_NAMES for reader in readers):
            return _Chain(call.name, last, consumers[last], cap)
        if len(readers) != 1 or not _is_homogeneous(readers[0]):
            return None
        if isinstance(readers[0], tf_keras.layers.ReLU) and readers[0].max_value is not None:
            cap = min(cap, float(readers[0].max_value))
        (last,) = consumers[last]
    return None


def _is_linear_convolution(layer: Any) -> bool:
    is_convolution = type(layer) in KERNEL_NAMES
    return is_convolution and bool(tf_keras.activations.serialize(layer.activation) == "linear")


def _is_homogeneous(layer: Any) -> bool:
    """Return whether a layer preserves a channel's factor, below its cap."""
    if isinstance(layer, tf_keras.layers.ReLU):
        return not layer.threshold and (layer.max_value is None or not layer.negative_slope)
    return isinstance(layer, _PASSED_ON)


def _measured(network: tf_keras.Model, names: list[str], batches: Iterable[Any]) -> list[_Channels]:
    """Measure the output channels of calls over all batches."""
    observer = tf_keras.Model(network.inputs, [network.get_layer(name).output for name in names])

    def channels(pixels: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        outputs, axes = tf.nest.flatten(observer(pixels, training=False)), [0, 1, 2]
        return [
            (tf.reduce_max(tf.abs(output), axes), tf.reduce_mean(tf.square(output), axes))
            for output in outputs
        ]

    found = results_of(compile_for_batches(network, channels), batches, "equalise channels")
    # From batches of calls to calls of batches.
    values = [zip(*of_call, strict=True) for of_call in zip(*found, strict=True)]
    return [_Channels(np.max(largest, axis=0), np.mean(square, axis=0)) for largest, square in values]


def _factors(channels: _Channels, cap: float, readers: list[Any]) -> np.ndarray:
    """Return a factor of at least 1 for each channel, float32 [C]."""
    largest = channels.largest
    # A channel below its cap may become as large as the largest one.
    room = np.maximum(np.minimum(largest * HEADROOM, cap), largest) if math.isfinite(cap) else largest
    target = float(room.max())
    whole = np.where(largest > 0, target / np.where(largest > 0, room, 1.0), 1.0)
    tried = [np.clip(whole**power, 1.0, LARGEST_SCALE).astype(np.float32) for power in POWERS]
    return min(tried, key=lambda factors: sum(_noise(r, factors, channels.square, target) for r in readers))


def _noise(layer: Any, factors: np.ndarray, square: np.ndarray, largest: float) -> float:
    """Estimate the variance that 8-bit rounding adds to a reader's outputs; no unit.

    `factors` and `square`, the mean squares before scaling, are of its input channels; `largest` is its
    input's largest value.
    """
    kernel = getattr(layer, KERNEL_NAMES[type(layer)]).numpy() / factors[:, np.newaxis]
    taps, kernel = kernel.shape[0] * kernel.shape[1], np.abs(kernel)
    scaled = square * factors**2
    of_activations = (largest / 255) ** 2 * float((kernel**2).sum())
    if isinstance(layer, _DENSE):
        of_kernels = float((kernel.max(axis=(0, 1, 2)) ** 2).sum() * scaled.sum())
    else:
        of_kernels = float((kernel.max(axis=(0, 1)) ** 2 * scaled[:, np.newaxis]).sum())
    return of_activations + of_kernels * taps / 127**2


def _multiply_outputs(layer: Any, scales: np.ndarray) -> None:
    kernel = getattr(layer, KERNEL_NAMES[type(layer)])
    depthwise = not isinstance(layer, _DENSE)
    kernel.assign(kernel * (scales.reshape(kernel.shape[2:]) if depthwise else scales))
    if layer.use_bias:
        layer.bias.assign(layer.bias * scales)


def correct_biases(
    folded: FoldedNetwork, aware: AwareNetwork, batches: Iterable[Any]
) -> dict[str, np.ndarray]:
    """Subtract from each convolution's bias the mean error of its rounded kernel, in place.

    Section 4.2 of the paper, with means measured on images (its appendix D). A rounded kernel has the same
    error for all inputs. If these are of one sign, as after a ReLU, the output has a mean error.

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
    layers = {name: folded.network.get_layer(name) for name in aware.placement.quantized}
    names = [name for name, layer in layers.items() if _is_linear_convolution(layer) and layer.use_bias]
    twins = [aware.network.get_layer(PREFIX + name) for name in names]
    observer = tf_keras.Model(aware.network.inputs, [[twin.input, twin.output] for twin in twins])

    def errors(pixels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with unquantized_outputs() as outputs:
            found = observer(pixels, training=False)
        return tf.shape(pixels)[0], [
            tf.reduce_mean(outputs[twin.name] - folded.network.get_layer(name)(given), [0, 1, 2])
            for name, twin, (given, _) in zip(names, twins, found, strict=True)
        ]

    measure = compile_for_batches(aware.network, errors)
    total, images = [np.zeros(twin.layer.bias.shape, np.float64) for twin in twins], 0
    for number, means in results_of(measure, batches, "correct biases"):
        total = [before + number * mean for before, mean in zip(total, means, strict=True)]
        images += number
    found = {name: (-mean / images).astype(np.float32) for name, mean in zip(names, total, strict=True)}
    add_to_biases(aware, found)
    return found


def add_to_biases(aware: AwareNetwork, corrections: dict[str, np.ndarray]) -> None:
    """Add corrections from `correct_biases` to the biases of convolutions that run in integers."""
    for name, correction in corrections.items():
        if name in aware.placement.quantized:
            aware.network.get_layer(PREFIX + name).layer.bias.assign_add(correction)
