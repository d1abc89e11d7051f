"""A detector's sensitivity to quantization: sensitivity.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.quantization import QuantizationSettings


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

    settings: QuantizationSettings
    examples: int
    layers: list[LayerError]
    accuracy: Accuracy | None = None


SENSITIVITY = JsonFile(
    name="sensitivity.json",
    content=Sensitivity,
    writer="`detflow sensitivity`",
    remedy="measure the detector again",
)
