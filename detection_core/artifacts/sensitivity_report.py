"""The sensitivity of a detector to quantization: sensitivity.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.quantization import QuantizationSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerError:
    """What quantization changes in the output of a layer.

    Ratios of signal to quantization noise are in dB, means over the channels that are not 0 throughout, each
    channel's at most 100; None where every channel is.

    Attributes:
        layer: its name.
        kind: its class.
        group: part of the network that it belongs to.
        own_db: of the noise that quantizing this layer alone adds, on the inputs that it has in the quantized
            network.
        total_db: of the difference to the float network, the noise of all layers before it included.
        mean_error: of the magnitudes of that difference.
        largest_error: of them.
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
    """The quantized network with one part left in float.

    Attributes:
        group: the part.
        layers: that are then not quantized.
        metrics: COCO metric to value; None where there is nothing to measure it on.
        gained: by which mAP is above that of the network with everything quantized, absolute.
    """

    group: str
    layers: int
    metrics: Mapping[str, float | None]
    gained: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accuracy:
    """What quantization costs, and which part of the network pays for it.

    Attributes:
        split: that was measured on.
        images: of it.
        float_metrics: of the network in float; COCO metric to value.
        quantized_metrics: of the network with everything quantized.
        groups: in the order of the network.
    """

    split: str
    images: int
    float_metrics: Mapping[str, float | None]
    quantized_metrics: Mapping[str, float | None]
    groups: list[FloatGroup]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What sensitivity.json holds.

    Attributes:
        settings: how the network was quantized, after training.
        examples: training images that the ranges and the errors of layers were measured on, at most.
        layers: by `own_db`, worst first.
        accuracy: None where it was not asked for.
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
