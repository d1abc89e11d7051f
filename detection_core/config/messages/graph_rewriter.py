"""Quantization settings, and the export formats that they allow."""

from collections.abc import Collection, Iterator

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.errors import Problem
from detection_core.protos.graph_rewriter_pb2 import Quantization

INTEGER_BITS = 8
"""Bits of weights and of activations in integer files."""
_BITS = ("weight_bits", "activation_bits")
FORMATS_OF_8_BITS = ("int8", "int8_int8_input", "int8_float32_input", "int8_mixed_aware")
"""Formats that take their integers from the quantization-aware network, if there is one."""
AWARE = "_aware"
"""Suffix of formats that require a quantization-aware network."""


def format_problems(
    message: Quantization | QuantizationOptions | None, formats: Collection[str]
) -> Iterator[Problem]:
    """Find export formats that the trained network does not support; None: it is not quantized."""
    if message is None:
        lacking = [name for name in formats if name.endswith(AWARE)]
        if lacking:
            text = (
                "expected formats of the float network, as nothing is trained with quantization, found"
                f" {', '.join(lacking)}; add a graph_rewriter block, or leave {AWARE} out"
            )
            yield Problem(path="formats", message=text)
        return
    integer = [name for name in formats if name in FORMATS_OF_8_BITS]
    for field in _BITS:
        bits = getattr(message, field)
        if integer and bits != INTEGER_BITS:
            have = f"{' and '.join(integer)} {'have' if len(integer) > 1 else 'has'}"
            text = (
                f"expected {INTEGER_BITS}, as {have},"
                f" found {bits}; quantize with {field}: {INTEGER_BITS}, or export what other bits serve:"
                " int4_weights_aware those of 4-bit weights, int16x8_aware those of 16-bit activations"
            )
            yield Problem(path=f"graph_rewriter.quantization.{field}", message=text)
