"""Quantization settings, and the export formats that they allow."""

from collections.abc import Collection, Iterator, Mapping

from detection_core.artifacts.quantization import QuantizationSettings
from detection_core.detectors.rules import Check
from detection_core.errors import Problem
from detection_core.protos.graph_rewriter_pb2 import Quantization

INTEGER_BITS = 8
"""Bits of weights and of activations in integer files."""
BITS: Mapping[str, tuple[int, int]] = {
    "weight_bits": (INTEGER_BITS, 4),
    "activation_bits": (INTEGER_BITS, 16),
}
"""Field to its allowed numbers of bits: 4 is for int4_weights_aware, 16 for int16x8_aware."""
FORMATS_OF_8_BITS = ("int8", "int8_int8_input", "int8_float32_input", "int8_mixed_aware")
"""Formats that take their integers from the quantization-aware network, if there is one."""
AWARE = "_aware"
"""Suffix of formats that require a quantization-aware network."""


def _bit_problems(message: Quantization, path: str) -> Iterator[Problem]:
    for field, (usual, other) in BITS.items():
        found = getattr(message, field)
        if found not in (usual, other):
            expected = f"expected {usual}, or {other} for a file with {other} bits, found {found}"
            yield Problem(path=f"{path}.{field}", message=f"{expected}; set {field}: {usual}")


def format_problems(
    message: Quantization | QuantizationSettings | None, formats: Collection[str]
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
    for field in BITS:
        bits = getattr(message, field)
        if integer and bits != INTEGER_BITS:
            have = f"{' and '.join(integer)} {'have' if len(integer) > 1 else 'has'}"
            text = (
                f"expected {INTEGER_BITS}, as {have},"
                f" found {bits}; quantize with {field}: {INTEGER_BITS}, or export what other bits serve:"
                " int4_weights_aware those of 4-bit weights, int16x8_aware those of 16-bit activations"
            )
            yield Problem(path=f"graph_rewriter.quantization.{field}", message=text)


CHECKS: Mapping[str, Check] = {"Quantization": _bit_problems}
