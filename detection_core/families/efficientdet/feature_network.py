"""The feature network of google/automl's EfficientDet: cells of nodes that add maps of any level.

It differs from the Object Detection API's pyramid in three ways. Nodes are listed, maps are resampled
differently, and each map of a sum has a weight variable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.families.efficientdet.settings import LAST_BACKBONE_LEVEL, EfficientDetSettings, Node
from detection_core.parts.layers.keras_layers import NearestResize
from detection_core.parts.layers.layer_hyperparams import (
    GLOROT_UNIFORM,
    BatchNormOptions,
    LayerHyperparams,
)
from detection_core.parts.layers.network_layers import NetworkLayers
from detection_core.parts.necks.bifpn import EPSILON, WeightedFusion

BATCH_NORM = BatchNormOptions(momentum=0.99, epsilon=0.001, center=True, scale=True)
_POOLS = {"max": tf_keras.layers.MaxPooling2D, "avg": tf_keras.layers.AveragePooling2D}


@tf_keras.utils.register_keras_serializable(package="detflow")
class NodeFusion(WeightedFusion):
    """Weighted sum of maps of one shape, with one variable per map: `WSM`, `WSM_1`, ...

    "fastattn" divides each weight by the sum of all weights; "attn" takes their softmax. With the prefix
    "channel_", each channel has separate weights.
    """

    def build(self, input_shape: Any) -> None:
        """Create a weight, [] or [C], for each map, initially 1."""
        shape = (input_shape[0][-1],) if self.method.startswith("channel_") else ()
        self.map_weights = [
            self.add_weight(
                name=f"WSM_{index}" if index else "WSM",
                shape=shape,
                initializer="ones",
                experimental_autocast=False,  # EPSILON underflows in half precision
            )
            for index in range(len(input_shape))
        ]
        tf_keras.layers.Layer.build(self, input_shape)

    def shares(self) -> list[tf.Tensor]:
        """Return the normalised weight of each map, float32, broadcastable to it."""
        weights = tf.stack([tf.convert_to_tensor(weight) for weight in self.map_weights])
        if self.method.removeprefix("channel_") == "attn":
            return tf.unstack(tf.nn.softmax(weights, axis=0))
        positive = tf.nn.relu(weights)
        return tf.unstack(positive / (tf.reduce_sum(positive, axis=0) + EPSILON))


class FeatureNetwork:
    """Build the layers of the feature network.

    Layers are called `bifpn_coarse_LEVEL` for levels above the backbone's, and `bifpn_CELL_NODE`.

    Args:
        settings: of the detector.
        layers: maker of layers.
    """

    def __init__(self, settings: EfficientDetSettings, layers: NetworkLayers) -> None:
        hyperparams = LayerHyperparams(
            initializer=GLOROT_UNIFORM,
            batch_norm=batch_norm(settings),
            activation=activation_name(settings.act_type),
            force_use_bias=not settings.conv_bn_act_pattern,
        )
        self._settings = settings
        self._layers = layers.under(hyperparams)

    def __call__(self, levels: Mapping[int, tf.Tensor]) -> list[tf.Tensor]:
        """Return the features of each level, finest first, from backbone features by level."""
        settings = self._settings
        maps = {level: levels[level] for level in settings.levels if level <= LAST_BACKBONE_LEVEL}
        for level in range(LAST_BACKBONE_LEVEL + 1, settings.max_level + 1):
            last = maps[level - 1]
            half = -(-last.shape[1] // 2), -(-last.shape[2] // 2)
            maps[level] = self.resampled(last, half, f"bifpn_coarse_{level}")
        features = [maps[level] for level in settings.levels]
        for cell in range(settings.fpn_cell_repeats):
            features = self._cell(features, cell)
        return features

    def _cell(self, inputs: list[tf.Tensor], cell: int) -> list[tf.Tensor]:
        maps, last = list(inputs), dict(zip(self._settings.levels, inputs, strict=True))
        for index, node in enumerate(self._settings.nodes):
            maps.append(self._node(maps, node, f"bifpn_{cell}_{index}"))
            last[node.level] = maps[-1]
        return [last[level] for level in self._settings.levels]

    def _node(self, maps: list[tf.Tensor], node: Node, name: str) -> tf.Tensor:
        target = maps[node.level - self._settings.min_level]
        size = target.shape[1], target.shape[2]
        inputs = [
            self.resampled(maps[place], size, f"{name}_input_{index}")
            for index, place in enumerate(node.inputs)
        ]
        return self.after_combining(self.combined(inputs, name), name)

    def combined(self, inputs: list[tf.Tensor], name: str) -> tf.Tensor:
        """Return the weighted sum of maps of one shape."""
        method = self._settings.fpn_weight_method
        if method != "sum":
            return NodeFusion(method, name=f"{name}_combine")(inputs)
        if len(inputs) == 1:
            return inputs[0]
        return tf_keras.layers.Add(name=f"{name}_combine")(inputs)

    def after_combining(self, features: tf.Tensor, name: str) -> tf.Tensor:
        """Convolve, normalise and activate, in the order of the settings."""
        settings, layers = self._settings, self._layers
        if settings.separable_conv:
            convolution = layers.separable(name, settings.fpn_num_filters, 3, plain=(False, False))
        else:
            convolution = layers.conv(name, settings.fpn_num_filters, 3)
        if settings.conv_bn_act_pattern:
            return layers.norm_activation(convolution(features), name)
        features = convolution(layers.activation(f"{name}_act")(features))
        return layers.norm(f"{name}_bn")(features)

    def resampled(self, features: tf.Tensor, size: tuple[int, int], name: str) -> tf.Tensor:
        """Resample a map to the given rows and columns, and project it to the network's channels.

        Raises:
            ValueError: when one side has to shrink and the other to stay or grow.
        """
        rows, columns = features.shape[1], features.shape[2]
        if rows > size[0] and columns > size[1]:
            if self._settings.conv_after_downsample:
                return self._projected(self._pooled(features, size, name), name)
            return self._pooled(self._projected(features, name), size, name)
        if rows > size[0] or columns > size[1]:
            raise ValueError(f"cannot resample {rows}x{columns} to {size[0]}x{size[1]}: one side shrinks")
        features = self._projected(features, name)
        if (rows, columns) == size:
            return features
        return NearestResize(*size, name=f"{name}_up")(features)

    def _pooled(self, features: tf.Tensor, size: tuple[int, int], name: str) -> tf.Tensor:
        strides = [(side - 1) // target + 1 for side, target in zip(features.shape[1:3], size, strict=True)]
        pool = _POOLS[self._settings.pooling_type]
        return pool([stride + 1 for stride in strides], strides, padding="same", name=f"{name}_pool")(
            features
        )

    def _projected(self, features: tf.Tensor, name: str) -> tf.Tensor:
        """Project features to the network's channels, if they have another number of channels."""
        channels = self._settings.fpn_num_filters
        if features.shape[-1] == channels:
            return features
        projected = self._layers.conv(name, channels, 1, use_bias=True)(features)
        if not self._settings.apply_bn_for_resampling:
            return projected
        return self._layers.norm(f"{name}_bn")(projected)


def activation_name(act_type: str) -> str:
    """Return our name of one of google/automl's activations."""
    return "swish" if act_type in ("silu", "swish_native") else act_type


def batch_norm(settings: EfficientDetSettings) -> BatchNormOptions:
    """Return the batch normalisation of every layer; `sync_batch_norm` needs several replicas to matter."""
    return dataclasses.replace(BATCH_NORM, synchronized=settings.sync_batch_norm)


def with_activation(layers: NetworkLayers, settings: EfficientDetSettings, **changes: Any) -> NetworkLayers:
    """Return a maker of layers with the normalisation and activation of the settings."""
    hyperparams = LayerHyperparams(
        batch_norm=batch_norm(settings), activation=activation_name(settings.act_type)
    )
    return layers.under(dataclasses.replace(hyperparams, **changes))
