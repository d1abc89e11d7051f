"""Split weighted sums of maps into products with a constant, and sums, which have integer kernels.

In inference the weight of each map in a BiFPN's sum is constant, like a normalisation's scale. It is folded
in the same way: each weight becomes a separate trainable factor. The weights are then no longer normalised,
as a folded convolution has no batch normalisation.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.parts.necks.bifpn import WeightedFusion
from detection_core.quantization.graph import LayerCall, NetworkGraph


@tf_keras.utils.register_keras_serializable(package="detflow")
class ScaledMap(tf_keras.layers.Layer):
    """Multiplies a map, float32 [B, h, w, C], by one factor, or by one per channel.

    Args:
        per_channel: whether each channel has a separate factor.
        **settings: of every layer.
    """

    def __init__(self, *, per_channel: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.per_channel = per_channel

    def build(self, input_shape: Any) -> None:
        """Make the factor, [] or [C], initially 1."""
        shape = (input_shape[-1],) if self.per_channel else ()
        self.factor = self.add_weight(name="factor", shape=shape, initializer="ones")
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the product."""
        return inputs * self.factor

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "per_channel": self.per_channel}


def split_fusions(graph: NetworkGraph) -> NetworkGraph:
    """Return the same computation with each weighted sum as products and a sum.

    Args:
        graph: network to change; each sum keeps the weighted sum's name.
    """
    calls: dict[str, LayerCall] = {}
    for call in graph.calls.values():
        if isinstance(call.layer, WeightedFusion):
            calls |= {part.name: part for part in _parts(call)}
        else:
            calls[call.name] = call
    return dataclasses.replace(graph, calls=calls)


def _parts(call: LayerCall) -> list[LayerCall]:
    if len(call.inputs) == 1:
        return [_scaled(call, 0, call.name)]
    sum_layer = tf_keras.layers.Add(name=call.name)
    if call.layer.is_plain:
        return [dataclasses.replace(call, layer=sum_layer)]
    products = [_scaled(call, index, f"{call.name}_share_{index}") for index in range(len(call.inputs))]
    inputs = tuple(product.name for product in products)
    return [*products, dataclasses.replace(call, layer=sum_layer, inputs=inputs)]


def _scaled(call: LayerCall, index: int, name: str) -> LayerCall:
    share = np.asarray(call.layer.shares()[index])
    layer = ScaledMap(per_channel=share.ndim > 0, name=name)
    shape = call.layer.input_shape
    layer.build(shape[index] if isinstance(shape, list) else shape)
    layer.set_weights([share])
    return LayerCall(name=name, layer=layer, inputs=(call.inputs[index],), many=False)
