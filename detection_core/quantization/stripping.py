"""Remove fake quantization from a trained network, for export in other number formats."""

from __future__ import annotations

from typing import Any

import tf_keras

from detection_core.quantization.graph import LayerCall, read_graph, rebuild
from detection_core.quantization.quantizers import InputQuantizer, QuantizedCall


def strip_fake_quantization(network: tf_keras.Model, *, name: str, rounded: bool) -> tf_keras.Model:
    """Return a quantization-aware network in float, with the original layer names.

    Args:
        network: from `aware.add_fake_quantization`, possibly trained; not changed.
        name: of the new network.
        rounded: round kernels to the grid of their bits; otherwise keep the trained variables.
    """

    def make_layer(call: LayerCall) -> tf_keras.layers.Layer | None:
        if not call.inputs or isinstance(call.layer, InputQuantizer):
            return None
        return _plain(call.layer, rounded)

    return rebuild(read_graph(network), make_layer, name=name)


def _plain(layer: Any, rounded: bool) -> tf_keras.layers.Layer:
    """Return a copy of a layer without its wrapper, with name and weights."""
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
