"""The quantization artifact: quantization.json, what of a network is quantized and how."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizationSettings:
    """What `graph_rewriter { quantization { ... } }` asked for.

    Attributes:
        delay: training steps before fake quantization starts.
        weight_bits: bits of a kernel's value.
        activation_bits: bits of an activation's value.
        symmetric: whether an activation's zero is in the middle of its range.
        pairwise_sums: whether each sum of two tensors within a sum of more has a range; once none had.
        hard_swish: whether a hard swish is quantized; once none was.
        weighted_sums: whether the weighted sums of a BiFPN run in integers; once they did not.
    """

    delay: int
    weight_bits: int
    activation_bits: int
    symmetric: bool
    pairwise_sums: bool = False
    hard_swish: bool = False
    weighted_sums: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeUse:
    """What a layer's output has on training images, beside the range that it is quantized with.

    Attributes:
        observed: its smallest and largest value before it is quantized.
        cut: fraction of its values that lie outside of the range.
        used: fraction of the range that its values have.
    """

    observed: tuple[float, float]
    cut: float
    used: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizedLayer:
    """A layer that runs in integers.

    Attributes:
        layer: its name.
        kind: its class.
        weights: attribute of the layer that holds the quantized kernel; "" where it has none.
        output: `own` where its output has its own range, `fixed` where the integer kernel sets the range,
            `product` where it is that of the input times the layer's factor, else the name of the layer whose
            range it shares.
        folded: name of the batch normalisation that is folded into it; not there where there is none.
        range: smallest and largest value of its output; not there where it has no separate range.
        use: of the range, as training ended; not there where it was not measured.
    """

    layer: str = ""
    kind: str = "layer"
    weights: str = ""
    output: str = ""
    folded: str | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    range: tuple[float, float] | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    use: RangeUse | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FloatLayer:
    """A layer, or a stage after the network, that stays in float.

    Attributes:
        layer: its name.
        reason: why.
    """

    layer: str = ""
    reason: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Coverage:
    """How much of the network is quantized.

    Attributes:
        convolutions: all of them.
        quantized_convolutions: those that run in integers.
        weights: of all convolutions.
        quantized_weights: of those that run in integers.
        fraction: of the weights that are quantized; None where it is not known.
    """

    convolutions: int = 0
    quantized_convolutions: int = 0
    weights: int = 0
    quantized_weights: int = 0
    fraction: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantization:
    """What quantization.json holds.

    Attributes:
        settings: what was asked for.
        quantized: layers in the order of the network.
        not_quantized: layers and stages that stay in float.
        warnings: of ranges that cut much off, or leave much unused.
        coverage: counts; early files have the fraction alone.
    """

    settings: QuantizationSettings
    quantized: list[QuantizedLayer] = dataclasses.field(default_factory=list)
    not_quantized: list[FloatLayer] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    coverage: Coverage | float | None = None

    @property
    def counts(self) -> Coverage:
        """The coverage; partial for files of early versions."""
        return self.coverage if isinstance(self.coverage, Coverage) else Coverage(fraction=self.coverage)

    @property
    def kinds(self) -> Mapping[str, int]:
        """Class of a layer to how many of it are quantized."""
        kinds: dict[str, int] = {}
        for entry in self.quantized:
            kinds[entry.kind] = kinds.get(entry.kind, 0) + 1
        return kinds


QUANTIZATION = JsonFile(
    name="quantization.json",
    content=Quantization,
    writer="QuantizationRewriter",
    remedy="quantize the detector again",
    sort_keys=True,
)
