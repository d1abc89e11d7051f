"""The quantization artifact: quantization.json lists the quantized layers and their ranges.

`sensitivity.json` holds how sensitive a detector is to the quantization of each layer.
"""

import collections
import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizationOptions:
    """Options of the config's `graph_rewriter { quantization { ... } }`.

    Attributes:
        delay: training steps before fake quantization starts; until then only ranges are observed.
        weight_bits: bits of a kernel's value; a config has 8 or 4, TensorFlow's fake quantization 2 to 16.
        activation_bits: bits of an activation's value; a config has 8 or 16, TensorFlow 2 to 16.
        symmetric: centre the range of activations at zero. Kernels are always symmetric.
    """

    delay: int
    weight_bits: int = 8
    activation_bits: int = 8
    symmetric: bool = False

    @property
    def small_weight_bits(self) -> int:
        """Return the bits of depthwise kernels and of factors, for which files need at least 8."""
        return max(self.weight_bits, 8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeUse:
    """How a layer's output on training images uses its quantization range.

    Attributes:
        observed: smallest and largest value before quantization.
        cut: fraction of values outside the range.
        used: fraction of the range that the values cover.
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
        weights: attribute of the layer that holds the quantized kernel; "" if it has none.
        output: source of the output's range. `own`: a separate range; `fixed`: set by the integer kernel;
            `product`: the input's range times the layer's factor. Otherwise the name of the layer that shares
            its range.
        folded: name of the batch normalisation folded into it; omitted if there is none.
        range: smallest and largest value of its output; omitted without a separate range.
        use: use of the range at the end of training; omitted if not measured.
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
    """Counts of quantized convolutions and weights.

    Attributes:
        convolutions: number of convolutions.
        quantized_convolutions: number that run in integers.
        weights: number of weights in all convolutions.
        quantized_weights: number of weights in integer convolutions.
        fraction: fraction of weights that are quantized.
    """

    convolutions: int
    quantized_convolutions: int
    weights: int
    quantized_weights: int
    fraction: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantization:
    """The content of quantization.json.

    Attributes:
        settings: the requested settings.
        quantized: layers in the order of the network.
        not_quantized: layers and stages that stay in float.
        warnings: about ranges that clip many values or are mostly unused.
        coverage: counts of quantized convolutions and weights.
    """

    settings: QuantizationOptions
    quantized: list[QuantizedLayer] = dataclasses.field(default_factory=list)
    not_quantized: list[FloatLayer] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    coverage: Coverage

    @property
    def kinds(self) -> Mapping[str, int]:
        """Number of quantized layers of each class."""
        return collections.Counter(entry.kind for entry in self.quantized)


QUANTIZATION = JsonFile(
    name="quantization.json",
    content=Quantization,
    writer="QuantizationRewriter",
    remedy="quantize the detector again",
    sort_keys=True,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerError:
    """Error of a layer's output caused by quantization.

    Signal-to-quantization-noise ratios are in dB. They are means over channels with a nonzero value, each
    channel's limited to 100. None if all channels are 0.

    Attributes:
        layer: name of the layer.
        kind: class of the layer.
        group: part of the network that it belongs to.
        own_db: ratio for the noise of this layer alone, on its inputs in the quantized network.
        total_db: ratio for the difference from the float network, including the noise of earlier layers.
        mean_error: mean magnitude of that difference.
        largest_error: largest magnitude of that difference.
        range: smallest and largest value of the output in the float network.
    """

    layer: str
    kind: str
    group: str
    own_db: float | None
    total_db: float | None
    mean_error: float
    largest_error: float
    range: tuple[float, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FloatGroup:
    """The quantized network with one part kept in float.

    Attributes:
        group: name of the part.
        layers: layers kept in float.
        metrics: COCO metric to value; None if there is nothing to measure.
        gained: absolute gain in mAP over the fully quantized network.
    """

    group: str
    layers: int
    metrics: Mapping[str, float | None]
    gained: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Loss of accuracy by quantization, and the contribution of each part.

    Attributes:
        split: split used.
        images: number of images in it.
        float_metrics: COCO metric to value, for the float network.
        quantized_metrics: the same, for the fully quantized network.
        groups: in the order of the network.
    """

    split: str
    images: int
    float_metrics: Mapping[str, float | None]
    quantized_metrics: Mapping[str, float | None]
    groups: list[FloatGroup]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The content of sensitivity.json.

    Attributes:
        settings: settings of the post-training quantization.
        examples: largest number of training images used to measure ranges and layer errors.
        layers: by `own_db`, worst first.
        accuracy: None if not requested.
    """

    settings: QuantizationOptions
    examples: int
    layers: list[LayerError]
    accuracy: Accuracy | None = None


SENSITIVITY = JsonFile(
    name="sensitivity.json",
    content=Sensitivity,
    writer="`detflow sensitivity`",
    remedy="measure the detector again",
)
