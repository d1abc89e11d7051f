"""Quantization settings."""

from __future__ import annotations

from collections.abc import Mapping

from detection_core.config.rules import NOT_NEGATIVE, Range, Rules

QUANTIZED_BITS = 8
"""Bits of weights and of activations, in training as in the TensorFlow Lite file."""

_BITS = Range(QUANTIZED_BITS, QUANTIZED_BITS, f"{QUANTIZED_BITS}, the only number of bits that is supported")

RULES: Mapping[str, Rules] = {
    "GraphRewriter": Rules("builders.graph_rewriter"),
    "Quantization": Rules(
        "builders.graph_rewriter",
        ranges={"weight_bits": _BITS, "activation_bits": _BITS, "delay": NOT_NEGATIVE},
    ),
}
