"""What a family's quantization takes and returns; free of TensorFlow Model Optimization, slow to import."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.quantization import RangeUse


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizationOptions:
    """What the config's `graph_rewriter { quantization { ... } }` asks for.

    Attributes:
        delay: training steps before fake quantization starts; until then only ranges are observed.
        weight_bits: bits of a kernel's value; a config has 8 or 4, TensorFlow's fake quantization 2 to 16.
        activation_bits: bits of an activation's value, likewise.
        symmetric: put an activation's zero in the middle of its range. Kernels always are symmetric.
        pairwise_sums: give each sum of two tensors a range, also within a sum of more; records of earlier
            quantizations do not.
        hard_swish: quantize hard swishes; records of earlier quantizations do not.
        weighted_sums: take the weighted sums of a BiFPN apart, so that they run in integers, too; records of
            earlier quantizations do not.
    """

    delay: int = 500000
    weight_bits: int = 8
    activation_bits: int = 8
    symmetric: bool = False
    pairwise_sums: bool = True
    hard_swish: bool = True
    weighted_sums: bool = True

    @property
    def small_weight_bits(self) -> int:
        """Bits of a value of depthwise kernels and of factors, for which files have no fewer than 8."""
        return max(self.weight_bits, 8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeCheck:
    """What was found of each range.

    Attributes:
        uses: name of a layer to how its values use its range, in the order of the network.
        warnings: what is far off, a sentence for each layer.
    """

    uses: Mapping[str, RangeUse]
    warnings: tuple[str, ...]
