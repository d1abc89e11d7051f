"""Interface of a family's quantization, without TensorFlow Model Optimization, which is slow to import."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from detection_core.artifacts.quantization import Quantization, RangeUse

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from detection_core.artifacts.quantization import LayerError, QuantizationOptions
    from detection_core.detectors.base import Detector


ONE_STAGE_IN_FLOAT: Mapping[str, str] = {
    "score_conversion": "after the network: runs once on its outputs, in float32",
    "box_decoding": "after the network: small against the convolutions, and its exponential needs the range",
    "non_max_suppression": "after the network: compares and sorts, runs in float32",
}
"""Stages after the network of a one-stage detector, with the reason why they stay in float."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeCheck:
    """The result of checking quantization ranges.

    Attributes:
        uses: name of a layer to how its values use its range, in the order of the network.
        warnings: one sentence for each layer whose range is far off.
    """

    uses: Mapping[str, RangeUse]
    warnings: tuple[str, ...]


class QuantizedDetector(Protocol):
    """A detector rewritten with fake quantization."""

    @property
    def model(self) -> Detector:
        """Return the rewritten detector."""

    @property
    def options(self) -> QuantizationOptions:
        """Return the quantization options."""

    def calibrate(self, batches: Iterable[tf.Tensor]) -> None:
        """Initialise every range from measurements on resized pixels, float32 [B, H, W, 3], 0..255."""

    def observer(self) -> Callable[[tf.Tensor], np.ndarray]:
        """Return the function that measures a batch of the same pixels; its results can be pickled."""

    def calibrate_from(self, extremes: Mapping[int, np.ndarray]) -> None:
        """Set the ranges that `calibrate` sets, from the number of each batch to what `observer` measured."""

    def calibrate_untrained(self, batches: Callable[[], Iterable[tf.Tensor]]) -> None:
        """Calibrate on the same pixels when no training follows; each call returns all batches."""

    def float_layers(self) -> list[str]:
        """Return the layers that stay in float."""

    def layer_errors(self, batches: Iterable[tf.Tensor]) -> list[LayerError]:
        """Measure what quantization changes in each layer's output, on resized pixels."""

    def groups(self) -> Mapping[str, Collection[str]]:
        """Return the parts of the network, each with its layers, in the order of the network."""

    def as_trained(self) -> QuantizedDetector:
        """Return it with its current weights also as those of its float network."""

    def without_fake_quantization(self) -> Detector:
        """Return the float detector, with kernels rounded to their bits."""

    def leave_in_float(self, layers: Collection[str]) -> Detector:
        """Return the detector with its float network's weights, and some layers left in float."""

    def sharing_range(self, layer: str) -> list[str]:
        """Return the layers that can only be left in float together with this one."""

    def weight_count(self, layers: Collection[str]) -> int:
        """Count the weights of some layers."""

    def check_ranges(self, batches: Iterable[tf.Tensor]) -> RangeCheck:
        """Compare the ranges with the tensors' values, on resized pixels."""

    def describe(self, check: RangeCheck | None = None) -> Quantization:
        """Describe the quantization; it can be rebuilt from the description's `settings`."""
