"""Single layers, activations and the conversion of pixels to a backbone's input range."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.ops.update_draws import draw_seed
from detection_core.parts.layers.static_shapes import has_static_shape
from detection_core.structures import COLOURS

# The value of google/automl's smooth ReLU.
_SMOOTHNESS = 20.0**4


@tf_keras.utils.register_keras_serializable(package="detflow")
def hard_swish(features: tf.Tensor) -> tf.Tensor:
    """Return x times a piecewise linear sigmoid, https://arxiv.org/abs/1905.02244."""
    return features * tf.nn.relu6(features + 3.0) / 6.0


@tf_keras.utils.register_keras_serializable(package="detflow")
def mish(features: tf.Tensor) -> tf.Tensor:
    """Return x * tanh(softplus(x)), https://arxiv.org/abs/1908.08681."""
    return features * tf.math.tanh(tf.math.softplus(features))


@tf_keras.utils.register_keras_serializable(package="detflow")
def smooth_relu(features: tf.Tensor) -> tf.Tensor:
    """Return google/automl's smooth ReLU, https://arxiv.org/abs/2006.14536."""
    exact = tf.cast(features, tf.float32)  # the smoothness exceeds float16's range
    positive = exact > 0.0
    logarithm = tf.math.log(tf.where(positive, _SMOOTHNESS * exact + 1.0, 1.0))
    return tf.cast(tf.where(positive, exact - logarithm / _SMOOTHNESS, 0.0), features.dtype)


FUNCTIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "hswish": hard_swish,
    "mish": mish,
    "srelu": smooth_relu,
}


class ConfiguredLayer(tf_keras.layers.Layer):
    """Base of layers with an attribute for each argument of the constructor, besides every layer's."""

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        _, *names, _ = inspect.signature(type(self).__init__).parameters
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


class _WithConstant(ConfiguredLayer):
    """Base of layers with one constant, `value`."""

    def __init__(self, value: float, **settings: Any) -> None:
        super().__init__(**settings)
        self.value = value


@tf_keras.utils.register_keras_serializable(package="detflow")
class AddConstant(_WithConstant):
    """Adds a constant to each value."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the sums, in the shape of the inputs."""
        return inputs + tf.cast(self.value, inputs.dtype)


@tf_keras.utils.register_keras_serializable(package="detflow")
class MultiplyByConstant(_WithConstant):
    """Multiplies each value by a constant."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the products, in the shape of the inputs."""
        return inputs * tf.cast(self.value, inputs.dtype)


@has_static_shape
@tf_keras.utils.register_keras_serializable(package="detflow")
class Dropout(tf_keras.layers.Dropout):
    """Keras' layer; in a training update it draws from `update_draws`."""

    def call(self, inputs: tf.Tensor, training: Any = None) -> tf.Tensor:
        """Drop values in training, and scale up the others; the shape stays."""
        seed = draw_seed(self.name) if training is True and self.rate else None
        if seed is None:
            return super().call(inputs, training=training)
        shape = self._get_noise_shape(inputs)
        return tf.nn.experimental.stateless_dropout(inputs, self.rate, seed, noise_shape=shape)


def stochastic_depth(rate: float, name: str) -> Dropout:
    """Return a layer that drops whole images with probability `rate`, https://arxiv.org/abs/1603.09382."""
    return Dropout(rate, noise_shape=(None, 1, 1, 1), name=name)


def hard_sigmoid(features: tf.Tensor, name: str) -> tf.Tensor:
    """Return max(0, min(1, x / 6 + 1/2)), https://arxiv.org/abs/1905.02244.

    Each step is a layer, as each is an operation of an integer network.
    """
    shifted = AddConstant(3.0, name=f"{name}_shift")(features)
    clipped = tf_keras.layers.ReLU(max_value=6.0, name=f"{name}_clip")(shifted)
    return MultiplyByConstant(1.0 / 6.0, name=name)(clipped)


def sigmoid(features: tf.Tensor, name: str) -> tf.Tensor:
    """Return the logistic function."""
    return tf_keras.layers.Activation("sigmoid", name=name)(features)


@tf_keras.utils.register_keras_serializable(package="detflow")
class NearestResize(ConfiguredLayer):
    """Nearest-neighbour resize: output index i takes input index floor(i * input size / output size).

    Unlike a cropped `UpSampling2D`, it spreads the repetitions over an odd size.
    """

    def __init__(self, rows: int, columns: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.rows = rows
        self.columns = columns

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Resize float32 [B, h, w, C] to [B, rows, columns, C]."""
        return tf.raw_ops.ResizeNearestNeighbor(images=inputs, size=[self.rows, self.columns])


CHANNEL_MEANS = (123.68, 116.779, 103.939)
IMAGENET_MEANS = (0.485, 0.456, 0.406)
IMAGENET_DEVIATIONS = (0.229, 0.224, 0.225)


def subtract_channel_means(pixels: tf.Tensor) -> tf.Tensor:
    """Subtract the mean colour of ImageNet, in pixel units.

    As in the Object Detection API, images with further channels are not changed at all.
    """
    return pixels - tf.constant(CHANNEL_MEANS) if pixels.shape[-1] == len(CHANNEL_MEANS) else pixels


def by_channel(values: Sequence[float], pixels: tf.Tensor) -> tf.Tensor:
    """Return values of the colours, and their mean for each further channel, float32 [c]."""
    further = pixels.shape[-1] - len(values)
    return tf.constant([*values, *[sum(values) / len(values)] * further], tf.float32)


def reverse_colours(pixels: tf.Tensor) -> tf.Tensor:
    """Turn RGB into BGR or back; further channels stay behind them."""
    return tf.gather(pixels, [2, 1, 0, *range(COLOURS, pixels.shape[-1])], axis=-1)


def standardize(pixels: tf.Tensor) -> tf.Tensor:
    """Subtract ImageNet's mean colour and divide by its deviation, after scaling to 0..1."""
    means, deviations = by_channel(IMAGENET_MEANS, pixels), by_channel(IMAGENET_DEVIATIONS, pixels)
    return (pixels / 255.0 - means) / deviations


PREPROCESSORS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "unit_range": lambda pixels: (2.0 / 255.0) * pixels - 1.0,  # to -1..1
    "channel_means": subtract_channel_means,
    "standardize": standardize,
}


@tf_keras.utils.register_keras_serializable(package="detflow")
@has_static_shape
class BatchNormalization(tf_keras.layers.BatchNormalization):
    """Batch normalisation that joins the depthwise convolution before it where it uses its averages.

    TensorFlow computes a convolution with a normalisation and an activation in one pass, but a depthwise one
    only with a bias and an activation. So in a graph the kernel is scaled instead of the maps.
    """

    def call(self, inputs: tf.Tensor, training: Any = None, mask: Any = None) -> tf.Tensor:
        """Return the normalised maps, in the shape of the inputs."""
        convolution = None if training is not False or tf.executing_eagerly() else inputs.op
        if convolution is None or convolution.type != "DepthwiseConv2dNative":
            return super().call(inputs, training=training, mask=mask)
        maps, kernel = convolution.inputs
        scale = tf.math.rsqrt(self.moving_variance + self.epsilon) * (self.gamma if self.scale else 1.0)
        shift = (self.beta if self.center else 0.0) - self.moving_mean * scale
        copied = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
        attributes = {name: convolution.get_attr(name) for name in copied}
        # Output channel c * multiplier + m is [c, m] in a kernel.
        scaled = kernel * tf.cast(tf.reshape(scale, kernel.shape[2:]), kernel.dtype)
        outputs = tf.raw_ops.DepthwiseConv2dNative(input=maps, filter=scaled, **attributes)
        return tf.nn.bias_add(outputs, tf.cast(shift, outputs.dtype))
