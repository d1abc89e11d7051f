"""Fake quantization of a map times a factor, as in the integer kernel of a multiplication."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
import tensorflow_model_optimization as tfmot

from detection_core.detectors.quantization import QuantizationOptions
from detection_core.quantization.quantizers import Clock, Range, usable_range

# A map with a smaller factor gets the steps of this one. XNNPACK adds maps whose steps are at most 2^10 times
# finer than those of the sum.
SMALLEST_FACTOR = 2.0**-6


class FactorQuantizer(tfmot.quantization.keras.quantizers.Quantizer):
    """One scale for a factor of maps, over its extremes; a single value is not rounded."""

    def __init__(self, bits: int, clock: Clock) -> None:
        self.bits, self.clock = bits, clock

    def build(self, tensor_shape: Any, name: str, layer: Any) -> dict[str, tf.Variable]:
        """Make no variables: the range is computed from the factor."""
        return {}

    def __call__(self, inputs: Any, training: bool, weights: Any, **kwargs: Any) -> tf.Tensor:
        """Return the factor, float32 [] or [C], on its grid."""
        factor = tf.convert_to_tensor(inputs)
        low = tf.stop_gradient(tf.minimum(tf.reduce_min(factor), 0.0))
        high = tf.stop_gradient(tf.maximum(tf.reduce_max(factor), SMALLEST_FACTOR))
        quantized = tf.quantization.fake_quant_with_min_max_vars(factor, low, high, num_bits=self.bits)
        return self.clock.choose(quantized, factor, training)

    def get_config(self) -> dict[str, Any]:
        """Return the identifying settings; networks are rebuilt from their record, not from this."""
        return {"bits": self.bits}


class ProductQuantizer(tfmot.quantization.keras.quantizers.Quantizer):
    """The range of a map times that of its factor, so that a single factor changes no integer of the map."""

    def __init__(
        self, options: QuantizationOptions, clock: Clock, *, factor: tf.Variable, input_range: Range
    ) -> None:
        self.options, self.clock, self.factor, self.input_range = options, clock, factor, input_range

    def build(self, tensor_shape: Any, name: str, layer: Any) -> dict[str, tf.Variable]:
        """Make no variables: the range is derived from others."""
        return {}

    def __call__(self, inputs: Any, training: bool, weights: Any, **kwargs: Any) -> tf.Tensor:
        """Return the product, float32, on its grid."""
        low, high = self.range_of(weights)
        quantized = tf.quantization.fake_quant_with_min_max_vars(
            inputs, low, high, num_bits=self.options.activation_bits
        )
        return self.clock.choose(quantized, inputs, training)

    def range_of(self, variables: dict[str, Any]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the product's range."""
        extremes = tf.stack([tf.convert_to_tensor(end) for end in self.input_range()])
        factor = tf.reshape(tf.convert_to_tensor(self.factor), [-1, 1])
        products = tf.stop_gradient(tf.concat([factor, [[SMALLEST_FACTOR]]], axis=0) * extremes)
        return usable_range(tf.reduce_min(products), tf.reduce_max(products), self.options)

    def get_config(self) -> dict[str, Any]:
        """Return the identifying settings; networks are rebuilt from their record, not from this."""
        return dataclasses.asdict(self.options)
