"""Layers of CenterNet's network, each with its object path in the Object Detection API's checkpoints."""

from __future__ import annotations

import dataclasses

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.layer_hyperparams import GLOROT_UNIFORM, LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrackedLayers:
    """Creates and calls layers, and notes the object path of each one.

    Attributes:
        layers: creates the layers.
        path: object path of the layers' parent, below the model.
        scope: start of the layers' names.
        paths: filled while layers are created: name of a layer with weights -> its object path.
    """

    layers: NetworkLayers
    path: str = ""
    scope: str = ""
    paths: dict[str, str] = dataclasses.field(default_factory=dict)

    def under(self, name: str, *, at: str = "") -> TrackedLayers:
        """Return the layers of a part of the network; `at` is its object path if it is not the name."""
        return dataclasses.replace(self, path=self._path(at or name), scope=f"{self.layer_name(name)}_")

    def with_hyperparams(self, hyperparams: LayerHyperparams) -> TrackedLayers:
        """Return the same with other hyperparameters."""
        return dataclasses.replace(self, layers=self.layers.under(hyperparams))

    def layer_name(self, name: str) -> str:
        """Return the name of a layer of this part."""
        return f"{self.scope}{name.replace('/', '_')}"

    def conv(
        self,
        features: tf.Tensor,
        name: str,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        use_bias: bool = True,
        bias: float = 0.0,
        at: str = "",
    ) -> tf.Tensor:
        """Apply a convolution; with a stride, padding does not depend on the input's size."""
        layers = self.layers.under(self.layers.hyperparams, explicit_padding=stride > 1)
        own = self._tracked(name, at)
        layer = layers.conv(own, channels, kernel, stride=stride, use_bias=use_bias, bias=bias, plain=True)
        return layer(features)

    def separable(
        self, features: tf.Tensor, name: str, channels: int, kernel: int, *, at: str = ""
    ) -> tf.Tensor:
        """Apply a depthwise and a 1x1 convolution with a bias, which checkpoints store as one layer."""
        own = self.layer_name(name)
        self.paths[f"{own}_depthwise"] = self.paths[f"{own}_pointwise"] = self._path(at or name)
        layer = self.layers.separable(own, channels, kernel, use_bias=True, plain=(True, True))
        return layer(features)

    def transposed(
        self, features: tf.Tensor, name: str, channels: int, kernel: int, *, at: str = ""
    ) -> tf.Tensor:
        """Apply a transposed convolution that doubles rows and columns."""
        own = self._tracked(name, at)
        layer = tf_keras.layers.Conv2DTranspose(
            channels,
            kernel,
            strides=2,
            padding="same",
            kernel_initializer=GLOROT_UNIFORM.build(self.layers.seed, f"{own}/kernel"),
            name=own,
        )
        return layer(features)

    def norm(self, features: tf.Tensor, name: str, *, at: str = "") -> tf.Tensor:
        """Apply a batch normalisation."""
        return self.layers.norm(self._tracked(name, at))(features)

    def relu(self, features: tf.Tensor, name: str) -> tf.Tensor:
        """Apply a ReLU."""
        return tf_keras.layers.ReLU(name=f"{self.layer_name(name)}_act")(features)

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def _tracked(self, name: str, at: str) -> str:
        own = self.layer_name(name)
        self.paths[own] = self._path(at or name)
        return own
