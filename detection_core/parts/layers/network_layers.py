"""Create the standard layers of a detector's single flat functional network.

Layers have no tf_keras regularizers. The regularizer of each kernel is recorded by name instead. So each
variable counts once, however often a shared layer is called. A rewritten copy of the network is
regularized like the original.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.parts.layers.keras_layers import FUNCTIONS, BatchNormalization, hard_sigmoid, sigmoid
from detection_core.parts.layers.layer_hyperparams import (
    GLOROT_UNIFORM,
    InitializerOptions,
    LayerHyperparams,
    Regularizer,
)

LayerCall = Callable[[tf.Tensor], tf.Tensor]


def _identity(features: tf.Tensor) -> tf.Tensor:
    return features


def swish(features: tf.Tensor, name: str) -> tf.Tensor:
    """Return the product of the features and their sigmoid, https://arxiv.org/abs/1710.05941."""
    gate = tf_keras.layers.Activation("sigmoid", name=f"{name}_sigmoid")(features)
    return tf_keras.layers.Multiply(name=name)([features, gate])


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkLayers:
    """Creates named layers with one set of hyperparameters.

    Attributes:
        hyperparams: of the layers.
        freeze_batch_norm: whether training normalises with the moving averages and leaves them unchanged.
        explicit_padding: whether to pad with zeros by kernel size before convolutions.
        dilation: distance of the taps of convolutions; other than 1 only without explicit padding.
        seed: of the initial weights; the same seed and name give the same weights on every machine; None:
            zeros.
        regularizers: filled while layers are created: "layer/weight" -> regularizer.
    """

    hyperparams: LayerHyperparams
    freeze_batch_norm: bool = False
    explicit_padding: bool = False
    dilation: int = 1
    seed: int | None = 0
    regularizers: dict[str, Regularizer] = dataclasses.field(default_factory=dict)

    def under(self, hyperparams: LayerHyperparams, *, explicit_padding: bool = False) -> "NetworkLayers":
        """Return the layers of another part of the same network."""
        return dataclasses.replace(self, hyperparams=hyperparams, explicit_padding=explicit_padding)

    def changed(self, **hyperparams: Any) -> "NetworkLayers":
        """Return the same with some other hyperparameters."""
        return dataclasses.replace(self, hyperparams=dataclasses.replace(self.hyperparams, **hyperparams))

    def conv(
        self,
        name: str,
        filters: int,
        kernel_size: int | tuple[int, int],
        *,
        stride: int = 1,
        use_bias: bool | None = None,
        bias: float = 0.0,
        plain: bool = False,
        padding: str = "same",
    ) -> LayerCall:
        """Create a convolution without normalisation and activation.

        Args:
            name: of the layer.
            filters: output channels.
            kernel_size: rows and columns.
            stride: rows and columns.
            use_bias: None: from the hyperparameters.
            bias: initial value of the bias.
            plain: whether to use Glorot's initialiser and no regularizer instead of the hyperparameters.
            padding: "same" or "valid"; "same" becomes explicit padding if enabled.
        """
        layer = tf_keras.layers.Conv2D(
            filters,
            kernel_size,
            strides=stride,
            padding=self._padding(kernel_size) if padding == "same" else padding,
            dilation_rate=self.dilation,
            use_bias=self.hyperparams.use_bias if use_bias is None else use_bias,
            kernel_initializer=self._initializer(f"{name}/kernel", plain),
            bias_initializer=tf_keras.initializers.Constant(bias),
            name=name,
        )
        return self._padded(layer, kernel_size, name) if padding == "same" else layer

    def depthwise(
        self,
        name: str,
        kernel_size: int,
        *,
        stride: int = 1,
        use_bias: bool = False,
        plain: bool = False,
        multiplier: int = 1,
    ) -> LayerCall:
        """Create a depthwise convolution without normalisation and activation; arguments as for `conv`.

        `multiplier` is the number of filters per channel.
        """
        layer = tf_keras.layers.DepthwiseConv2D(
            kernel_size,
            depth_multiplier=multiplier,
            strides=stride,
            padding=self._padding(kernel_size),
            use_bias=use_bias,
            depthwise_initializer=self._initializer(f"{name}/depthwise_kernel", plain),
            name=name,
        )
        return self._padded(layer, kernel_size, name)

    def separable(
        self,
        name: str,
        filters: int,
        kernel_size: int,
        *,
        stride: int = 1,
        use_bias: bool | None = None,
        bias: float = 0.0,
        plain: tuple[bool, bool] = (False, True),
    ) -> LayerCall:
        """Create a depthwise and a 1x1 convolution, `NAME_depthwise` and `NAME_pointwise`, nothing between.

        `plain` applies to the two in turn. By default the hyperparameters do not apply to the 1x1
        convolution, as in published models.
        """
        depthwise = self.depthwise(f"{name}_depthwise", kernel_size, stride=stride, plain=plain[0])
        pointwise = self.conv(f"{name}_pointwise", filters, 1, use_bias=use_bias, bias=bias, plain=plain[1])
        return lambda features: pointwise(depthwise(features))

    def doubling(self, name: str, filters: int, *, use_bias: bool = True) -> LayerCall:
        """Create a transposed 3x3 convolution that doubles rows and columns."""
        return tf_keras.layers.Conv2DTranspose(
            filters,
            3,
            strides=2,
            padding="same",
            use_bias=use_bias,
            kernel_initializer=self._initializer(f"{name}/kernel", False),
            name=name,
        )

    def dense(self, name: str, units: int) -> LayerCall:
        """Create a dense layer with a bias and without activation."""
        return tf_keras.layers.Dense(
            units, kernel_initializer=self._initializer(f"{name}/kernel", False), name=name
        )

    def norm(self, name: str) -> LayerCall:
        """Create the batch normalisation of the hyperparameters; the identity if they have none."""
        options = self.hyperparams.batch_norm
        if options is None:
            return _identity
        # A single replica has the whole batch, and its fused operation is faster.
        shared = tf.distribute.get_strategy().num_replicas_in_sync > 1
        layer = BatchNormalization(
            momentum=options.momentum,
            epsilon=options.epsilon,
            center=options.center,
            scale=options.scale,
            synchronized=options.synchronized and shared,
            name=name,
        )
        if self.freeze_batch_norm or not options.train:
            return lambda features: layer(features, training=False)
        return layer

    def activation(self, name: str) -> LayerCall:
        """Create the activation of the hyperparameters; the identity for "none"."""
        kind = self.hyperparams.activation
        if kind in FUNCTIONS:
            return tf_keras.layers.Activation(FUNCTIONS[kind], name=name)
        makers: dict[str, Callable[[], LayerCall]] = {
            "none": lambda: _identity,
            "relu": lambda: tf_keras.layers.ReLU(name=name),
            "relu6": lambda: tf_keras.layers.ReLU(max_value=6.0, name=name),
            "swish": lambda: lambda features: swish(features, name),
        }
        return makers[kind]()

    def norm_activation(self, features: tf.Tensor, name: str) -> tf.Tensor:
        """Apply the normalisation `NAME_bn` and the activation `NAME_act`."""
        return self.activation(f"{name}_act")(self.norm(f"{name}_bn")(features))

    def conv_norm(
        self, features: tf.Tensor, name: str, filters: int, kernel_size: int | tuple[int, int], **options: Any
    ) -> tf.Tensor:
        """Apply a convolution, with options as for `conv`, and the normalisation `NAME_bn`."""
        return self.norm(f"{name}_bn")(self.conv(name, filters, kernel_size, **options)(features))

    def conv_block(
        self, features: tf.Tensor, name: str, filters: int, kernel_size: int | tuple[int, int], **options: Any
    ) -> tf.Tensor:
        """Apply a convolution, with options as for `conv`, normalisation and activation."""
        return self.norm_activation(self.conv(name, filters, kernel_size, **options)(features), name)

    def depthwise_block(self, features: tf.Tensor, name: str, kernel_size: int, **options: Any) -> tf.Tensor:
        """Apply a depthwise convolution, with options as for `depthwise`, normalisation and activation."""
        return self.norm_activation(self.depthwise(name, kernel_size, **options)(features), name)

    def _padding(self, kernel_size: int | tuple[int, int]) -> str:
        return "valid" if self.explicit_padding and kernel_size not in (1, (1, 1)) else "same"

    def _padded(
        self, layer: tf_keras.layers.Layer, kernel_size: int | tuple[int, int], name: str
    ) -> LayerCall:
        """Return the layer after zero padding that does not depend on the input size, if enabled.

        A stride of two then samples the same rows for every input size, where "same" shifts them by one.
        """
        if self._padding(kernel_size) == "same":
            return layer
        sides = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
        amounts = tuple(((side - 1) // 2, side // 2) for side in sides)
        pad = tf_keras.layers.ZeroPadding2D(amounts, name=f"{name}_pad")
        return lambda features: layer(pad(features))

    def _initializer(self, weight: str, plain: bool) -> tf_keras.initializers.Initializer:
        options: InitializerOptions = GLOROT_UNIFORM if plain else self.hyperparams.initializer
        if self.hyperparams.regularizer is not None and not plain:
            self.regularizers[weight] = self.hyperparams.regularizer
        return options.build(self.seed, weight)


def pad_to_multiple(inputs: tf.Tensor, multiple: int, name: str = "input_padding") -> tf.Tensor:
    """Add zero rows below and zero columns to the right until both are multiples of `multiple`."""
    height, width = inputs.shape[1], inputs.shape[2]
    below, right = -height % multiple, -width % multiple
    if not below and not right:
        return inputs
    return tf_keras.layers.ZeroPadding2D(((0, below), (0, right)), name=name)(inputs)


GATES: dict[str, Callable[[tf.Tensor, str], tf.Tensor]] = {"sigmoid": sigmoid, "hard_sigmoid": hard_sigmoid}


def squeeze_excite(
    features: tf.Tensor,
    layers: NetworkLayers,
    name: str,
    channels: int,
    activation: str,
    *,
    gate: str = "sigmoid",
    regularize_biases: bool = False,
) -> tf.Tensor:
    """Apply squeeze-and-excitation, https://arxiv.org/abs/1709.01507: a gate weights channels by their means.

    Args:
        features: [B, H, W, C].
        layers: creates the layers.
        name: prefix of their names.
        channels: between the gate's two convolutions.
        activation: between them; see `LayerHyperparams.activation`.
        gate: function at the gate's output, a name in `GATES`.
        regularize_biases: whether the regularizer of the kernels applies to the biases, too.
    """
    inner = layers.changed(activation=activation)
    weights = tf_keras.layers.GlobalAveragePooling2D(keepdims=True, name=f"{name}_squeeze")(features)
    for piece, filters in (("reduce", channels), ("expand", features.shape[-1])):
        part = f"{name}_gate_{piece}"
        weights = inner.conv(part, filters, 1, use_bias=True)(weights)
        if regularize_biases and layers.hyperparams.regularizer is not None:
            layers.regularizers[f"{part}/bias"] = layers.hyperparams.regularizer
        if piece == "reduce":
            weights = inner.activation(f"{part}_act")(weights)
    weights = GATES[gate](weights, f"{name}_gate")
    return tf_keras.layers.Multiply(name=f"{name}_excite")([features, weights])
