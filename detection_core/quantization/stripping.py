"""A trained network without the fake quantization in it: what its weights are worth in other numbers."""

from __future__ import annotations

from typing import Any

import tf_keras

from detection_core.quantization.graph import LayerCall, read_graph, rebuild
from detection_core.quantization.quantizers import InputQuantizer, QuantizedCall


def strip_fake_quantization(network: tf_keras.Model, *, name: str, rounded: bool) -> tf_keras.Model:
    """Return a quantization-aware network in float, of layers with their own names.

    Args:
        network: as `aware.add_fake_quantization` made it, and training changed it; it is left as it is.
        name: of the new network.
        rounded: give kernels the values that they are computed with, on the grid of their bits; else those
            that training moves.
    """

    def make_layer(call: LayerCall) -> tf_keras.layers.Layer | None:
        if not call.inputs or isinstance(call.layer, InputQuantizer):
            return None
        return _plain(call.layer, rounded)

    return rebuild(read_graph(network), make_layer, name=name)


def _plain(layer: Any, rounded: bool) -> tf_keras.layers.Layer:
    """Return a copy of a layer, without its wrapper, with name and weights."""
    wrapped = layer.layer if isinstance(layer, QuantizedCall) else layer
    copy = type(wrapped).from_config(wrapped.get_config())
    if not layer.weights:
        return copy
    copy.build(layer.input_shape)
    if not isinstance(layer, QuantizedCall):
        copy.set_weights(layer.get_weights())
        return copy
    for weight, quantizer, variables in layer._weight_vars:
        value = quantizer(weight, False, weights=variables) if rounded else weight
        getattr(copy, layer.quantize_config.weights).assign(value)
    if getattr(wrapped, "use_bias", False):
        copy.bias.assign(wrapped.bias)
    return copy
