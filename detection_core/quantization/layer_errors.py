"""Measure the error of each layer's output between a float network and its quantized copy.

Signal-to-quantization-noise ratios as in Sheng et al., "A Quantization-Friendly Separable Convolution for
MobileNets", 2018, https://arxiv.org/abs/1803.08607, but for each channel. One channel of huge range leaves
few steps to the others. A ratio over the whole tensor, dominated by that channel, would not show this.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.artifacts.quantization import LayerError
from detection_core.ops.tracing import compile_for_batches, results_of
from detection_core.quantization.aware import PREFIX, AwareNetwork
from detection_core.quantization.folding import FoldedNetwork
from detection_core.quantization.graph import LayerCall, NetworkGraph, read_graph
from detection_core.quantization.placement import Placement, RangeSource

BACKBONE = "backbone"
OTHER = "other"
_PARTS = {
    ("backbone_",): BACKBONE,
    ("fpn_", "bifpn_", "extra_", "WSM"): "feature network",
    ("class_",): "class head",
    ("box_",): "box head",
    ("segmentation_",): "segmentation head",
    ("head_", "tower_"): "shared head",
}
"""Prefix of a layer's name, as `parts` and the families assign it, to the part."""


def layer_groups(graph: NetworkGraph) -> dict[str, str]:
    """Return the part of the network of each call, without inputs; each layer has one call.

    The backbone is split by the stride of its feature maps: `backbone, stride 8`.
    """
    groups: dict[str, str] = {}
    strides: dict[str, int] = {}
    rows = graph.calls[graph.inputs[0]].layer.output.shape[1]
    for call in graph.calls.values():
        strides[call.name] = _stride(call, rows, strides)
        if call.inputs:
            part = _part(call.name)
            groups[call.name] = f"{part}, stride {strides[call.name]}" if part == BACKBONE else part
    return groups


def _part(name: str) -> str:
    return next((part for beginnings, part in _PARTS.items() if name.startswith(beginnings)), OTHER)


def _stride(call: LayerCall, rows: int | None, strides: dict[str, int]) -> int:
    """Return the ratio of input rows to map rows, a power of 2; without rows, its source's stride."""
    shape = call.layer.output.shape
    # A squeeze-and-excitation works on a map pooled to one value.
    pooled = call.inputs and (len(shape) != 4 or shape[1] == 1)
    if pooled or not rows or not shape[1]:
        return strides[call.inputs[0]] if call.inputs else 1
    return int(2 ** round(math.log2(rows / shape[1])))


MOST_DB = 100.0
"""Ratio of a channel without noise; anything above is float32 rounding."""
# How statistics of two batches become one; the others are added.
_MERGED: dict[str, Callable[..., Any]] = {"largest": max, "low": min, "high": max}


def layer_errors(folded: FoldedNetwork, aware: AwareNetwork, batches: Iterable[Any]) -> list[LayerError]:
    """Measure the error of each layer that quantizes its weights, its output or both.

    A convolution with a fused activation shows the error of its weights. The error of its output is at the
    activation, where the integer kernel writes it.

    Args:
        folded: the float network.
        aware: its calibrated copy with fake quantization; run as in inference.
        batches: float32 [B, H, W, 3], preprocessed.

    Returns:
        Errors in the order of the network.

    Raises:
        ModelError: if there is no batch.
    """
    names = _quantizing(folded, aware.placement)
    measure = _statistics(folded, aware, names)
    totals = functools.reduce(
        lambda one, other: [_merged(*pair) for pair in zip(one, other, strict=True)],
        (
            [{name: value.astype(np.float64) for name, value in one.items()} for one in found]
            for found in results_of(measure, batches, "measure the layers")
        ),
    )
    groups = layer_groups(read_graph(folded.network))
    return [
        LayerError(
            layer=name,
            kind=aware.placement.quantized[name].kind,
            group=groups[name],
            own_db=_decibels(total["own_signal"], total["own_noise"]),
            total_db=_decibels(total["signal"], total["noise"]),
            mean_error=float(total["error"] / total["values"]),
            largest_error=float(total["largest"]),
            range=(float(total["low"]), float(total["high"])),
        )
        for name, total in zip(names, totals, strict=True)
    ]


class OutputNoise:
    """Measures the noise that quantization adds to a network's outputs, by present weights and ranges."""

    def __init__(self, folded: FoldedNetwork, aware: AwareNetwork) -> None:
        """Build the function that measures a float network and its copy with fake quantization."""

        def measure(pixels: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
            pair = (tf.nest.flatten(one.network(pixels, training=False)) for one in (folded, aware))
            return [
                (tf.reduce_sum(tf.square(expected)), tf.reduce_sum(tf.square(found - expected)))
                for expected, found in zip(*pair, strict=True)
            ]

        self._measure = compile_for_batches(folded.network, measure)

    def decibels(self, batches: Iterable[Any]) -> float:
        """Return the mean signal-to-noise ratio on float32 [B, H, W, 3] batches; ModelError without any."""
        sums = list(results_of(self._measure, batches, "measure the outputs"))
        signal, noise = np.sum(sums, axis=0, dtype=np.float64).T
        return float(np.mean(10 * np.log10(np.maximum(signal, 1e-30) / np.maximum(noise, 1e-30))))


def _quantizing(folded: FoldedNetwork, placement: Placement) -> list[str]:
    calls = read_graph(folded.network).calls
    return [
        name
        for name, entry in placement.quantized.items()
        if calls[name].inputs and (entry.weights or entry.range_source is not RangeSource.SHARED)
    ]


def _statistics(folded: FoldedNetwork, aware: AwareNetwork, names: Sequence[str]) -> Any:
    """Return a function of a batch to each layer's sums and extremes."""
    layers = [folded.network.get_layer(name) for name in names]
    twins = [aware.network.get_layer(PREFIX + name) for name in names]
    plain = tf_keras.Model(folded.network.inputs, [layer.output for layer in layers])
    quantized = tf_keras.Model(aware.network.inputs, [[twin.input, twin.output] for twin in twins])

    def measure(pixels: tf.Tensor) -> list[dict[str, tf.Tensor]]:
        expected = plain(pixels, training=False)
        found = quantized(pixels, training=False)
        return [
            _compare(wanted, output, layer(inputs))
            for layer, wanted, (inputs, output) in zip(layers, expected, found, strict=True)
        ]

    return compile_for_batches(folded.network, measure)


def _compare(expected: tf.Tensor, found: tf.Tensor, unquantized: tf.Tensor) -> dict[str, tf.Tensor]:
    """Compare a layer's output with the float network's, and with its own in float on the same inputs."""
    axes = list(range(expected.shape.rank - 1))
    error = tf.abs(found - expected)
    return {
        "values": tf.size(error),
        "error": tf.reduce_sum(error),
        "signal": tf.reduce_sum(tf.square(expected), axes),
        "noise": tf.reduce_sum(tf.square(error), axes),
        "own_signal": tf.reduce_sum(tf.square(unquantized), axes),
        "own_noise": tf.reduce_sum(tf.square(found - unquantized), axes),
        "largest": tf.reduce_max(error),
        "low": tf.reduce_min(expected),
        "high": tf.reduce_max(expected),
    }


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {name: _MERGED.get(name, np.add)(value, other[name]) for name, value in one.items()}


def _decibels(signal: np.ndarray, noise: np.ndarray) -> float | None:
    """Return the mean over channels with a signal; None if there is none."""
    has_signal = signal > 0
    if not has_signal.any():
        return None
    least = signal[has_signal] * 10 ** (-MOST_DB / 10)
    ratios = signal[has_signal] / np.maximum(noise[has_signal], least)
    return float(np.mean(10 * np.log10(ratios)))
