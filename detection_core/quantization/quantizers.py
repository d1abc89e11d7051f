"""Fake quantization of kernels and activations, as tensorflow-model-optimization's wrapper applies it.

Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
CVPR 2018, https://arxiv.org/abs/1712.05877. Kernels: symmetric, one scale per output channel, over the
kernel's range at each step. The range is also wide enough for the channel's bias, an int32 in units of the
input's scale times the kernel's. Activations: one scale per tensor, over a moving average of the batches'
extremes. Both train through a straight-through estimator.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import tensorflow as tf
import tensorflow_model_optimization as tfmot
import tf_keras

from detection_core.artifacts.quantization import QuantizationOptions

RANGE_MOMENTUM = 0.99
# Below this a channel is dead; a smaller scale would be outside the range of integer kernels.
SMALLEST_KERNEL = 1e-6
# Bound of an int32 bias. Trained networks have channels with kernels near 0 and a bias of 10, which would not
# fit at the kernel's own scale. Products of the largest kernels sum up to about 2^27, so both fit in an
# int32. The kernel loses less than a hundredth of its channel's bias in precision.
LARGEST_BIAS = 2**28


@dataclasses.dataclass(frozen=True, eq=False)
class Clock:
    """Decides whether fake quantization has started.

    A plain object, so that checkpoints and SavedModels of the network do not contain the step.

    Attributes:
        delay: steps before fake quantization starts.
        step: int64 [], the training loop's update counter; None for a network that is not trained.
    """

    delay: int
    step: tf.Variable | None

    def choose(self, quantized: tf.Tensor, plain: tf.Tensor, training: bool) -> tf.Tensor:
        """Return the quantized values; in training, the plain ones until the delay is over."""
        if not training or self.delay == 0 or self.step is None:
            return quantized
        return tf.where(self.step >= self.delay, quantized, plain)


Range = Callable[[], tuple[Any, Any]]
"""Returns the smallest and largest value of a tensor after quantization, float32 []."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BiasRule:
    """Bound on a kernel's scale from its bias.

    Attributes:
        bias: float32 [C], of the kernel's output channels.
        input_range: range of the kernel's input tensor.
        activation_bits: bits of that tensor.
    """

    bias: tf.Variable
    input_range: Range
    activation_bits: int

    def least_scale(self) -> tf.Tensor:
        """Return float32 [C], the least kernel scale at which no bias exceeds `LARGEST_BIAS`."""
        low, high = self.input_range()
        input_scale = (high - low) / (2**self.activation_bits - 1)
        return tf.abs(tf.convert_to_tensor(self.bias)) / (input_scale * LARGEST_BIAS)


class _Quantizer(tfmot.quantization.keras.quantizers.Quantizer):
    """A quantizer whose range follows from other values, unless it makes variables."""

    def build(self, tensor_shape: Any, name: str, layer: Any) -> dict[str, tf.Variable]:
        return {}

    def get_config(self) -> dict[str, Any]:
        """Return nothing, because networks are rebuilt from their record."""
        return {}


class _RangeQuantizer(_Quantizer):
    """A quantizer of activations over the range that `range_of` returns."""

    def __init__(self, options: QuantizationOptions, clock: Clock) -> None:
        self.options, self.clock = options, clock

    def __call__(self, inputs: Any, training: bool, weights: dict[str, Any], **kwargs: Any) -> tf.Tensor:
        """Return the activations, float32, on their range's grid."""
        low, high = self.range_of(weights)
        quantized = tf.quantization.fake_quant_with_min_max_vars(
            inputs, low, high, num_bits=self.options.activation_bits
        )
        return self.clock.choose(quantized, inputs, training)

    def range_of(self, variables: dict[str, Any]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the range by the quantizer's variables."""
        raise NotImplementedError


class KernelQuantizer(_Quantizer):
    """Symmetric, one scale per output channel."""

    def __init__(
        self, bits: int, clock: Clock, *, depthwise: bool, bias_rule: BiasRule | None = None
    ) -> None:
        self.bits, self.clock, self.depthwise, self.bias_rule = bits, clock, depthwise, bias_rule

    def __call__(self, inputs: Any, training: bool, weights: Any, **kwargs: Any) -> tf.Tensor:
        """Return the kernel, float32, on its grid of 2**bits - 1 values a channel."""
        kernel = tf.convert_to_tensor(inputs)
        # A depthwise kernel is [h, w, C, multiplier], with an output channel for each (C, multiplier).
        channels_last = tf.reshape(kernel, [*kernel.shape[:2], -1]) if self.depthwise else kernel
        axes = list(range(channels_last.shape.rank - 1))
        limit = tf.maximum(tf.reduce_max(tf.abs(channels_last), axes), SMALLEST_KERNEL)
        if self.bias_rule is not None:
            limit = tf.maximum(limit, self.bias_rule.least_scale() * (2 ** (self.bits - 1) - 1))
        limit = tf.stop_gradient(limit)
        quantized = tf.quantization.fake_quant_with_min_max_vars_per_channel(
            channels_last, -limit, limit, num_bits=self.bits, narrow_range=True
        )
        return self.clock.choose(tf.reshape(quantized, kernel.shape), kernel, training)


class ActivationQuantizer(_RangeQuantizer):
    """One scale per tensor, over a moving average of the training batches' extremes."""

    def build(self, tensor_shape: Any, name: str, layer: Any) -> dict[str, tf.Variable]:
        """Make the two variables of the range on the layer."""
        starts = {"min": -6.0, "max": 6.0}
        return {
            end: layer.add_weight(
                name=f"{name}_{end}",
                shape=(),
                initializer=tf_keras.initializers.Constant(start),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.MEAN,
            )
            for end, start in starts.items()
        }

    def __call__(self, inputs: Any, training: bool, weights: dict[str, Any], **kwargs: Any) -> tf.Tensor:
        """Return the activations, float32, on their range's grid; in training also update the range."""
        if training:
            for end, extreme in (("min", tf.reduce_min(inputs)), ("max", tf.reduce_max(inputs))):
                weights[end].assign_add((1 - RANGE_MOMENTUM) * (tf.stop_gradient(extreme) - weights[end]))
        return super().__call__(inputs, training, weights)

    def range_of(self, variables: dict[str, Any]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the range of the activations by these variables."""
        return usable_range(variables["min"], variables["max"], self.options)


class SigmoidQuantizer(_Quantizer):
    """The fixed grid of a sigmoid's integer kernel: from 0 on in steps of 1 / 2**bits."""

    def __init__(self, options: QuantizationOptions, clock: Clock) -> None:
        self.bits, self.clock = options.activation_bits, clock

    def __call__(self, inputs: Any, training: bool, weights: Any, **kwargs: Any) -> tf.Tensor:
        """Return the activations, float32, on the grid."""
        low, high = self.range_of(weights)
        quantized = tf.quantization.fake_quant_with_min_max_args(inputs, low, high, num_bits=self.bits)
        return self.clock.choose(quantized, inputs, training)

    def range_of(self, variables: dict[str, Any]) -> tuple[float, float]:
        """Return the fixed range."""
        return 0.0, 1.0 - 2.0**-self.bits


def usable_range(low: Any, high: Any, options: QuantizationOptions) -> tuple[tf.Tensor, tf.Tensor]:
    """Widen a range to contain zero, and centre it at zero if configured."""
    low, high = tf.minimum(low, 0.0), tf.maximum(high, 1e-6)
    if not options.symmetric:
        return low, high
    steps = 2 ** (options.activation_bits - 1)
    # Two's complement has one more step below zero than above.
    high = tf.maximum(high, -low * ((steps - 1) / steps))
    return -high * (steps / (steps - 1)), high


@dataclasses.dataclass(eq=False)
class CallConfig(tfmot.quantization.keras.QuantizeConfig):
    """Tells the wrapper of a call to quantize its kernel, its output, or both."""

    weights: str
    kernel: tfmot.quantization.keras.quantizers.Quantizer | None
    output: tfmot.quantization.keras.quantizers.Quantizer | None

    def get_weights_and_quantizers(self, layer: Any) -> list[tuple[Any, Any]]:
        """Return the kernel, if there is one."""
        return [(getattr(layer, self.weights), self.kernel)] if self.kernel else []

    def get_activations_and_quantizers(self, layer: Any) -> list[Any]:
        """Return none: the output is quantized after the activation that integer kernels fuse."""
        return []

    def set_quantize_weights(self, layer: Any, quantize_weights: list[tf.Tensor]) -> None:
        """Set the quantized kernel on the layer."""
        for weight in quantize_weights:
            setattr(layer, self.weights, weight)

    def set_quantize_activations(self, layer: Any, quantize_activations: list[Any]) -> None:
        """Keep the layer's activation."""

    def get_output_quantizers(self, layer: Any) -> list[Any]:
        """Return the output's quantizer, if the output has a separate range."""
        return [self.output] if self.output else []

    def get_config(self) -> dict[str, Any]:
        """Return the identifying settings."""
        return {"weights": self.weights}


class QuantizedCall(tfmot.quantization.keras.QuantizeWrapperV2):
    """The wrapper of one call, which separates training from inference before tracing.

    The base class adds a conditional to every quantizer and rewrites its source with AutoGraph. Networks of a
    hundred calls would be slow to build.

    Attributes:
        observed: while `unquantized_outputs` runs, call name to output before quantization.
    """

    observed: ClassVar[dict[str, tf.Tensor] | None] = None

    @tf.autograph.experimental.do_not_convert
    def call(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
        """Return the call's quantized output."""
        training = bool(training)
        weights = [
            quantizer(weight, training, weights=variables)
            for weight, quantizer, variables in self._weight_vars
        ]
        self.quantize_config.set_quantize_weights(self.layer, weights)
        output = self.layer.call(inputs)
        if QuantizedCall.observed is not None:
            QuantizedCall.observed[self.name] = output
        for quantizer in self._output_quantizers:
            output = quantizer(output, training, weights=self._output_quantizer_vars)
        return output

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the layer's output."""
        return self.layer.compute_output_shape(input_shape)

    def take_weights(self, layer: Any) -> None:
        """Copy kernel and bias of a convolution of the same shapes."""
        # The wrapped layer's attribute is the last quantized tensor, not the variable.
        ((kernel, _, _),) = self._weight_vars
        kernel.assign(getattr(layer, self.quantize_config.weights))
        if layer.use_bias:
            self.layer.bias.assign(layer.bias)

    def output_range(self) -> tuple[Any, Any]:
        """Return the range of the call's quantized output, if it has a separate one."""
        (quantizer,) = self.quantize_config.get_output_quantizers(self.layer)
        return quantizer.range_of(self._output_quantizer_vars)


@contextlib.contextmanager
def unquantized_outputs() -> Iterator[dict[str, tf.Tensor]]:
    """Collect what each quantized call inside returns before it quantizes its output, by the call's name."""
    QuantizedCall.observed = {}
    try:
        yield QuantizedCall.observed
    finally:
        QuantizedCall.observed = None


class InputQuantizer(tf_keras.layers.Layer):
    """Quantizes the network's input over a fixed range, that of the pixels."""

    def __init__(
        self, options: QuantizationOptions, clock: Clock, input_range: tuple[float, float], name: str
    ):
        super().__init__(name=name)
        self.options, self.clock, self.input_range = options, clock, input_range

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Return the input on the grid of `activation_bits` bits."""
        low, high = self.output_range()
        quantized = tf.quantization.fake_quant_with_min_max_vars(
            inputs, low, high, num_bits=self.options.activation_bits
        )
        return self.clock.choose(quantized, inputs, bool(training))

    def output_range(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the range of the quantized pixels."""
        return usable_range(*self.input_range, self.options)


# A map with a smaller factor gets the steps of this one. XNNPACK adds maps whose steps are at most 2^10 times
# finer than those of the sum.
SMALLEST_FACTOR = 2.0**-6


class FactorQuantizer(_Quantizer):
    """One scale for a factor of maps, over its extremes; a single value is not rounded."""

    def __init__(self, bits: int, clock: Clock) -> None:
        self.bits, self.clock = bits, clock

    def __call__(self, inputs: Any, training: bool, weights: Any, **kwargs: Any) -> tf.Tensor:
        """Return the factor, float32 [] or [C], on its grid."""
        factor = tf.convert_to_tensor(inputs)
        low = tf.stop_gradient(tf.minimum(tf.reduce_min(factor), 0.0))
        high = tf.stop_gradient(tf.maximum(tf.reduce_max(factor), SMALLEST_FACTOR))
        quantized = tf.quantization.fake_quant_with_min_max_vars(factor, low, high, num_bits=self.bits)
        return self.clock.choose(quantized, factor, training)


class ProductQuantizer(_RangeQuantizer):
    """The range of a map times that of its factor, so that a single factor changes no integer of the map."""

    def __init__(
        self, options: QuantizationOptions, clock: Clock, *, factor: tf.Variable, input_range: Range
    ) -> None:
        super().__init__(options, clock)
        self.factor, self.input_range = factor, input_range

    def range_of(self, variables: dict[str, Any]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the product's range."""
        extremes = tf.stack([tf.convert_to_tensor(end) for end in self.input_range()])
        factor = tf.reshape(tf.convert_to_tensor(self.factor), [-1, 1])
        products = tf.stop_gradient(tf.concat([factor, [[SMALLEST_FACTOR]]], axis=0) * extremes)
        return usable_range(tf.reduce_min(products), tf.reduce_max(products), self.options)
