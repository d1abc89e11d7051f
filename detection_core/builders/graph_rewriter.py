"""GraphRewriter messages -> how a detector is quantized."""

from __future__ import annotations

from detection_core.config.pipeline_config import CheckedConfig
from detection_core.detectors.quantization import QuantizationOptions


def find_quantization_options(config: CheckedConfig) -> QuantizationOptions | None:
    """Read a config's `graph_rewriter { quantization { ... } }`; None where there is none."""
    if not config.graph_rewriter.HasField("quantization"):
        return None
    return build_quantization_options(config)


def build_quantization_options(config: CheckedConfig) -> QuantizationOptions:
    """Read a config's `graph_rewriter { quantization { ... } }`, which `check_quantization` asks for."""
    message = config.graph_rewriter.quantization
    return QuantizationOptions(
        delay=message.delay,
        weight_bits=message.weight_bits,
        activation_bits=message.activation_bits,
        symmetric=message.symmetric,
    )
