"""GraphRewriter messages -> how a detector is quantized."""

from __future__ import annotations

from detection_core.detectors.quantization import QuantizationOptions
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig


def find_quantization_options(config: TrainEvalPipelineConfig) -> QuantizationOptions | None:
    """Read a config's `graph_rewriter { quantization { ... } }`; None where there is none.

    Raises:
        ConfigError: when a number in it cannot be followed.
    """
    if not config.graph_rewriter.HasField("quantization"):
        return None
    message = config.graph_rewriter.quantization
    return QuantizationOptions(
        delay=message.delay,
        weight_bits=message.weight_bits,
        activation_bits=message.activation_bits,
        symmetric=message.symmetric,
    )


def build_quantization_options(config: TrainEvalPipelineConfig) -> QuantizationOptions:
    """Read a config's `graph_rewriter { quantization { ... } }`.

    Raises:
        ConfigError: when there is none, or a number in it cannot be followed.
    """
    options = find_quantization_options(config)
    if options is None:
        raise ConfigError(
            "expected a graph_rewriter block, which says how to quantize, found none; add"
            " `graph_rewriter { quantization { delay: 0 weight_bits: 8 activation_bits: 8 } }`",
            where="graph_rewriter",
        )
    return options
