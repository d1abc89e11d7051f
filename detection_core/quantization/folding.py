"""Fold batch normalisations and offsets into the convolution before them; unshare layers, split sums.

Jacob et al., 2018, section 3.2, https://arxiv.org/abs/1712.05877.

Quantization works on the network in inference, which has no separate batch normalisation. y = gamma (conv(x)
- mean) / sqrt(variance + epsilon) + beta is a convolution with a scaled kernel and a bias. Pyramid levels may
share a convolution but not its normalisations. Each level then gets a separate folded convolution, as in a
TFLite file.

Kernel regularizers are dropped. Before folding, normalisation made the network independent of the size of its
kernels; afterwards weight decay would change its outputs.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.parts.layers.keras_layers import AddConstant, ConfiguredLayer, NearestResize
from detection_core.parts.necks import WeightedFusion
from detection_core.quantization.graph import LayerCall, NetworkGraph, read_graph, rebuild


@tf_keras.utils.register_keras_serializable(package="detflow")
class ScaledMap(ConfiguredLayer):
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


@tf_keras.utils.register_keras_serializable(package="detflow")
class CopiedCells(ConfiguredLayer):
    """Nearest-neighbour upsampling by whole factors, in operations that integer delegates run.

    XNNPACK has no nearest-neighbour resizing, and the Edge TPU's compiler refuses its newer versions; the
    sources are in accelerators.yaml. Each pyramid level would split the network again. A concatenation along
    the channels repeats cells, one along the rows' axis repeats rows, and a reshape follows each.

    Args:
        factors: of rows and columns.
        **settings: of every layer.
    """

    def __init__(self, factors: tuple[int, int], **settings: Any) -> None:
        super().__init__(**settings)
        self.factors = tuple(factors)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Enlarge float32 [B, h, w, C]."""
        (height, width, channels), (rows, columns) = inputs.shape[1:], self.factors
        wide = tf.reshape(tf.concat([inputs] * columns, 3), [-1, height, columns * width, channels])
        return tf.reshape(tf.concat([wide] * rows, 2), [-1, rows * height, columns * width, channels])


# Most inputs of XNNPACK's concatenation.
MOST_COPIES = 5


def _factors(layer: Any) -> tuple[int, int] | None:
    """Return the whole factors of a nearest-neighbour upsampling; None for anything else."""
    is_nearest = isinstance(layer, NearestResize) or (
        isinstance(layer, tf_keras.layers.UpSampling2D) and layer.interpolation == "nearest"
    )
    if not is_nearest or None in (*layer.input_shape[1:], *layer.output_shape[1:]):
        return None
    small, large = layer.input_shape[1:3], layer.output_shape[1:3]
    factors = large[0] // small[0], large[1] // small[1]
    is_whole = (small[0] * factors[0], small[1] * factors[1]) == tuple(large)
    return factors if is_whole and min(factors) >= 1 and max(factors) <= MOST_COPIES else None


def in_integer_operations(graph: NetworkGraph) -> NetworkGraph:
    """Return the same computation with sums of two maps, products for their weights, and copies to upsample.

    The last partial sum keeps the sum's name. TensorFlow Lite adds two tensors at a time. If a layer adds
    more, the intermediate sums have no range, and the converter leaves all of them in float.

    In inference the weight of each map in a BiFPN's sum is constant, like a normalisation's scale. It is
    folded in the same way: each weight becomes a separate trainable factor. The weights are then no longer
    normalised, as a folded convolution has no batch normalisation.
    """
    calls = [part for call in graph.calls.values() for part in _parts(call)]
    return dataclasses.replace(graph, calls={call.name: call for call in calls})


def _parts(call: LayerCall) -> list[LayerCall]:
    if factors := _factors(call.layer):
        return [dataclasses.replace(call, layer=CopiedCells(factors, name=call.name))]
    if type(call.layer) is tf_keras.layers.Add:
        return _partial_sums(call.name, call.inputs)
    if not isinstance(call.layer, WeightedFusion):
        return [call]
    if len(call.inputs) == 1:
        return [_scaled(call, 0, call.name)]
    if call.layer.is_plain:
        return _partial_sums(call.name, call.inputs)
    products = [_scaled(call, index, f"{call.name}_share_{index}") for index in range(len(call.inputs))]
    return [*products, *_partial_sums(call.name, [product.name for product in products])]


def _partial_sums(name: str, inputs: Sequence[str]) -> list[LayerCall]:
    sums, total = [], inputs[0]
    for number, other in enumerate(inputs[1:], 1):
        pair, total = (total, other), name if number == len(inputs) - 1 else f"{name}_part_{number}"
        sums.append(LayerCall(name=total, layer=tf_keras.layers.Add(name=total), inputs=pair, many=True))
    return sums


def _scaled(call: LayerCall, index: int, name: str) -> LayerCall:
    share = np.asarray(call.layer.shares()[index])
    layer = ScaledMap(per_channel=share.ndim > 0, name=name)
    shape = call.layer.input_shape
    layer.build(shape[index] if isinstance(shape, list) else shape)
    layer.set_weights([share])
    return LayerCall(name=name, layer=layer, inputs=(call.inputs[index],), many=False)


FOLDED = (tf_keras.layers.BatchNormalization, AddConstant)
KERNEL_NAMES = {tf_keras.layers.Conv2D: "kernel", tf_keras.layers.DepthwiseConv2D: "depthwise_kernel"}
REGULARIZERS = ("kernel_regularizer", "depthwise_regularizer", "bias_regularizer", "activity_regularizer")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoldedNetwork:
    """A network in inference form.

    Attributes:
        network: functional, one layer object per call, without the folded normalisations.
        folded: name of a convolution to the name of its folded normalisation or offset.
    """

    network: tf_keras.Model
    folded: dict[str, str]


def fold_batch_norms(network: tf_keras.Model) -> FoldedNetwork:
    """Rebuild a network with each normalisation or offset folded into the convolution before it.

    Sums and upsampling are those of `in_integer_operations`. The flat functional network is not changed;
    ModelError for others.

    Returns:
        A network with the outputs of `network(x, training=False)` up to rounding.
    """
    graph = in_integer_operations(read_graph(network))
    folded = _foldable(graph)
    norms = {norm: convolution for convolution, norm in folded.items()}
    makers: dict[str, Callable[[], list[np.ndarray]]] = {}

    def make_layer(call: LayerCall) -> tf_keras.layers.Layer | None:
        if not call.inputs or call.name in norms:
            return None
        config = {**call.layer.get_config(), "name": call.name, "dtype": "float32"}
        config.update({key: None for key in REGULARIZERS if key in config})
        if isinstance(call.layer, tf_keras.layers.BatchNormalization):
            config["trainable"] = False  # without folding it keeps its statistics
        if call.name in folded:
            config["use_bias"] = True
            makers[call.name] = lambda: _folded_weights(call.layer, graph.calls[folded[call.name]].layer)
        else:
            makers[call.name] = call.layer.get_weights
        return type(call.layer).from_config(config)

    result = rebuild(graph, make_layer, name=network.name)
    for layer in result.layers:
        if layer.name in makers and layer.weights:
            layer.set_weights(makers[layer.name]())
    return FoldedNetwork(network=result, folded=folded)


def _foldable(graph: NetworkGraph) -> dict[str, str]:
    """Pair each convolution with its only reader, if that is a normalisation or an offset."""
    consumers = graph.consumers()
    pairs = {}
    for call in graph.calls.values():
        readers = consumers[call.name]
        if (
            type(call.layer) in KERNEL_NAMES
            and len(readers) == 1
            and call.name not in graph.outputs
            and isinstance(graph.calls[readers[0]].layer, FOLDED)
            and tf_keras.activations.serialize(call.layer.activation) == "linear"
        ):
            pairs[call.name] = readers[0]
    return pairs


def _folded_weights(convolution: Any, norm: Any) -> list[np.ndarray]:
    """Return [kernel, bias] of a convolution with a folded normalisation or offset."""
    kernel_name = KERNEL_NAMES[type(convolution)]
    kernel = getattr(convolution, kernel_name).numpy()
    if isinstance(norm, AddConstant):
        outputs = convolution.output.shape[-1]
        bias = convolution.bias.numpy() if convolution.use_bias else np.zeros(outputs, kernel.dtype)
        return [kernel, bias + kernel.dtype.type(norm.value)]
    mean, variance = norm.moving_mean.numpy(), norm.moving_variance.numpy()
    gamma = norm.gamma.numpy() if norm.scale else np.ones_like(mean)
    beta = norm.beta.numpy() if norm.center else np.zeros_like(mean)
    bias = convolution.bias.numpy() if convolution.use_bias else np.zeros_like(mean)
    scale = gamma / np.sqrt(variance + norm.epsilon)
    # A depthwise kernel is [h, w, C, multiplier]; its output channel is c * multiplier + m.
    per_channel = scale.reshape(kernel.shape[2:]) if kernel_name == "depthwise_kernel" else scale
    return [kernel * per_channel, beta + (bias - mean) * scale]
