"""Add fake quantization to a folded network, and calibrate its ranges on real input."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.ops.tracing import compile_for_batches, no_batches
from detection_core.quantization import quantizers
from detection_core.quantization.folding import KERNEL_NAMES, FoldedNetwork
from detection_core.quantization.graph import LayerCall, read_graph, rebuild
from detection_core.quantization.placement import Placement, Quantized, RangeSource, place_quantizers

PREFIX = "quant_"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AwareNetwork:
    """A network with fake quantization.

    Attributes:
        network: functional. `training=True` observes ranges, and quantizes after the delay; `training=False`
            always quantizes.
        placement: the quantized calls.
    """

    network: tf_keras.Model
    placement: Placement


def add_fake_quantization(
    folded: FoldedNetwork,
    options: QuantizationOptions,
    *,
    input_range: tuple[float, float],
    step: tf.Variable | None = None,
    float_calls: Collection[str] = (),
) -> AwareNetwork:
    """Build the quantization-aware copy of a folded network, with the same weights.

    Args:
        folded: network in inference form; not changed.
        options: delay, bits, symmetry.
        input_range: smallest and largest value of a pixel after preprocessing.
        step: the training loop's update counter, for the delay; None for a network that is not trained.
        float_calls: names of quantizable calls that stay in float.
    """
    graph = read_graph(folded.network)
    placement = place_quantizers(graph, float_calls)
    make_layer = _LayerMaker(placement, options, quantizers.Clock(options.delay, step), input_range)
    network = rebuild(graph, make_layer, name=f"{folded.network.name}_quantized")
    return AwareNetwork(network=network, placement=placement)


@dataclasses.dataclass(frozen=True)
class _LayerMaker:
    """Makes the quantized layer of each call; `input_range` bounds the network's input."""

    placement: Placement
    options: QuantizationOptions
    clock: quantizers.Clock
    input_range: tuple[float, float]
    made: dict[str, quantizers.InputQuantizer | quantizers.QuantizedCall] = dataclasses.field(
        default_factory=dict
    )

    def __call__(self, call: LayerCall) -> tf_keras.layers.Layer:
        """Make the layer; calls must come in the order of the network."""
        if not call.inputs:
            name = PREFIX + call.name
            self.made[call.name] = quantizers.InputQuantizer(
                self.options, self.clock, self.input_range, name=name
            )
            return self.made[call.name]
        copy = _copy_of(call)
        entry = self.placement.quantized.get(call.name)
        if entry is None or not (entry.weights or entry.range_source is not RangeSource.SHARED):
            return copy
        output = self._output_quantizer(call, copy, entry)
        config = quantizers.CallConfig(entry.weights, self._weight_quantizer(call, copy, entry), output)
        wrapped = quantizers.QuantizedCall(copy, config, name=PREFIX + call.name)
        if output is not None:
            self.made[call.name] = wrapped
        return wrapped

    def _weight_quantizer(self, call: LayerCall, layer: Any, entry: Quantized) -> Any:
        if not entry.weights:
            return None
        if entry.range_source is RangeSource.PRODUCT:
            return quantizers.FactorQuantizer(self.options.small_weight_bits, self.clock)
        depthwise = entry.weights == "depthwise_kernel"
        bits = self.options.small_weight_bits if depthwise else self.options.weight_bits
        rule = self._bias_rule(call, layer)
        return quantizers.KernelQuantizer(bits, self.clock, depthwise=depthwise, bias_rule=rule)

    def _bias_rule(self, call: LayerCall, layer: Any) -> quantizers.BiasRule | None:
        # Of a float input there is none.
        source = self.made.get(_range_owner(self.placement, call.inputs[0]))
        if source is None or not layer.use_bias:
            return None
        return quantizers.BiasRule(
            bias=layer.bias, input_range=source.output_range, activation_bits=self.options.activation_bits
        )

    def _output_quantizer(self, call: LayerCall, layer: Any, entry: Quantized) -> Any:
        if entry.range_source is RangeSource.OWN:
            return quantizers.ActivationQuantizer(self.options, self.clock)
        if entry.range_source is RangeSource.FIXED:
            return quantizers.SigmoidQuantizer(self.options, self.clock)
        if entry.range_source is RangeSource.PRODUCT:
            source = self.made[_range_owner(self.placement, call.inputs[0])]
            return quantizers.ProductQuantizer(
                self.options, self.clock, factor=layer.factor, input_range=source.output_range
            )
        return None


def _copy_of(call: LayerCall) -> tf_keras.layers.Layer:
    copy = type(call.layer).from_config(call.layer.get_config())
    if call.layer.weights:
        with tf.name_scope(call.name):
            copy.build(call.layer.input_shape)
        copy.set_weights(call.layer.get_weights())
    return copy


def _range_owner(placement: Placement, name: str) -> str:
    """Return the call that owns the quantization range of a call's output; "" for a float output."""
    entry = placement.quantized.get(name)
    return entry.range_owner if entry else ""


def measure_extremes(folded: FoldedNetwork, placement: Placement) -> Callable[[Any], np.ndarray]:
    """Return the function that measures one batch, float32 [B, H, W, 3], preprocessed.

    It returns the smallest and largest value of every tensor with a separate range, float32 [T, 2].
    """
    layers = map(folded.network.get_layer, _measured(folded, placement))
    observer = tf_keras.Model(folded.network.inputs, [layer.output for layer in layers])

    def extremes(pixels: tf.Tensor) -> tf.Tensor:
        outputs = observer(pixels, training=False)
        return tf.stack([[tf.reduce_min(output), tf.reduce_max(output)] for output in outputs])

    measure = compile_for_batches(folded.network, extremes)
    return lambda pixels: measure(tf.convert_to_tensor(pixels)).numpy()


def mean_ranges(
    folded: FoldedNetwork, placement: Placement, extremes: Mapping[int, np.ndarray]
) -> dict[str, tuple[float, float]]:
    """Average what `measure_extremes` returned for each batch, given by the batches' numbers.

    Batches are added in the order of their numbers, so the result does not depend on who measured them.

    Raises:
        ModelError: if there is no batch.
    """
    if not extremes:
        raise no_batches("calibrate ranges")
    mean = np.mean([extremes[number] for number in sorted(extremes)], axis=0)
    names = _measured(folded, placement)
    return {name: (float(low), float(high)) for name, (low, high) in zip(names, mean, strict=True)}


def _measured(folded: FoldedNetwork, placement: Placement) -> list[str]:
    """Return the layers whose outputs have a separate range; that of the network's input is known."""
    nodes = {name: folded.network.get_layer(name).inbound_nodes[0] for name in placement.observed}
    return [name for name, node in nodes.items() if node.parent_nodes]


def copy_kernels(folded: FoldedNetwork, aware: AwareNetwork) -> None:
    """Copy a folded network's present kernels and biases to its quantized copy."""
    for layer in folded.network.layers:
        if type(layer) not in KERNEL_NAMES:
            continue
        if layer.name in aware.placement.quantized:
            aware.network.get_layer(PREFIX + layer.name).take_weights(layer)
        else:
            aware.network.get_layer(layer.name).set_weights(layer.get_weights())


def set_ranges(aware: AwareNetwork, ranges: dict[str, tuple[float, float]]) -> None:
    """Initialise the quantizers with measured ranges."""
    for name, (low, high) in ranges.items():
        variables = aware.network.get_layer(PREFIX + name)._output_quantizer_vars
        variables["min"].assign(low)
        variables["max"].assign(high)


def read_ranges(aware: AwareNetwork) -> dict[str, tuple[float, float]]:
    """Return the present range of every tensor with a separate range."""
    ranges = {}
    for name in aware.placement.observed:
        variables = getattr(aware.network.get_layer(PREFIX + name), "_output_quantizer_vars", None)
        if variables:
            ranges[name] = (float(variables["min"].numpy()), float(variables["max"].numpy()))
    return ranges
