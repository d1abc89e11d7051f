"""Choose the layers that stay in float where a network that is quantized after training loses too much."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

import tensorflow as tf

from detection_core.artifacts.sensitivity_report import LayerError
from detection_core.detectors.base import Detector

_logger = logging.getLogger(__name__)

IMAGES = 100
"""Of the split, on which choices are compared."""
_FLOAT_BYTES = 3
"""What a weight takes more in float32 than in int8."""

Score = Callable[[Detector], float]
"""Gives the score of a detector, the higher the better, always on the same images."""


class MixedDetector(Protocol):
    """What is asked of a detector that is quantized, see `detectors.quantization.QuantizedDetector`."""

    def layer_errors(self, batches: Iterable[tf.Tensor]) -> list[LayerError]:
        """Measure what quantization changes in each layer's output."""

    def sharing_range(self, layer: str) -> list[str]:
        """Return the layers that cannot leave the integers one without the other."""

    def weight_count(self, layers: Collection[str]) -> int:
        """Count the weights of some layers."""

    def leave_in_float(self, layers: Collection[str]) -> Detector:
        """Return the detector without fake quantization in some layers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedBudget:
    """What may be spent.

    Attributes:
        max_drop: how far the score may lie below the float detector's; no layer more than that takes is left
            in float.
        max_bytes: what leaving layers in float may add to the file.
    """

    max_drop: float
    max_bytes: float = math.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedChoice:
    """What was chosen.

    Attributes:
        layers: those in float, in the order in which they were taken.
        score: of the network with them in float.
        float_score: of the float network.
        quantized_score: of the network with all layers quantized.
        added_bytes: that they take more than in int8, by their weights.
    """

    layers: tuple[str, ...]
    score: float
    float_score: float
    quantized_score: float
    added_bytes: int


def choose_float_layers(
    quantized: MixedDetector,
    float_detector: Detector,
    batches: Iterable[tf.Tensor],
    score: Score,
    budget: MixedBudget,
) -> MixedChoice:
    """Take layers out of the integers, the noisiest first, until the budget of accuracy or of size is met.

    The noise is that which a layer adds itself, by its signal-to-noise ratio. After 0, 1, 2, 4, 8, ... layers
    and after as many as the budget of size allows the network is scored, until it is good enough.

    Args:
        quantized: a calibrated detector.
        float_detector: what it was made from.
        batches: float32 [B, H, W, 3], resized pixels, 0..255.
        score: measures a detector.
        budget: what may be spent.
    """
    float_score = score(float_detector)
    scored: dict[tuple[str, ...], float] = {}
    for layers in _prefixes(quantized, batches, budget):
        scored[layers] = score(quantized.leave_in_float(layers))
        if scored[layers] >= float_score - budget.max_drop:
            break
    best = max(scored, key=scored.__getitem__)  # of equal ones the first, which has the fewest layers
    choice = MixedChoice(
        layers=best,
        score=scored[best],
        float_score=float_score,
        quantized_score=scored[()],
        added_bytes=_FLOAT_BYTES * quantized.weight_count(best),
    )
    _tell(choice, budget)
    return choice


def _prefixes(
    quantized: MixedDetector, batches: Iterable[tf.Tensor], budget: MixedBudget
) -> list[tuple[str, ...]]:
    """Return longer and longer beginnings of the list of layers, the noisiest first, that the size allows."""
    errors = [error for error in quantized.layer_errors(batches) if error.own_db is not None]
    ranked = sorted(errors, key=lambda error: error.own_db or 0.0)
    beginnings: list[tuple[str, ...]] = [()]
    for error in ranked:
        layers = tuple(dict.fromkeys([*beginnings[-1], *quantized.sharing_range(error.layer)]))
        if _FLOAT_BYTES * quantized.weight_count(layers) > budget.max_bytes:
            break
        if layers != beginnings[-1]:
            beginnings.append(layers)
    kept = {0, len(beginnings) - 1, *(2**n for n in range(len(beginnings).bit_length()))}
    return [layers for number, layers in enumerate(beginnings) if number in kept]


def _tell(choice: MixedChoice, budget: MixedBudget) -> None:
    _logger.info(
        "mixed | %d layers in float, %+d bytes: mAP@.50 %.4f, %.4f in integers, %.4f in float | %s",
        len(choice.layers),
        choice.added_bytes,
        choice.score,
        choice.quantized_score,
        choice.float_score,
        ", ".join(choice.layers),
    )
    if choice.float_score - choice.score > budget.max_drop:
        _logger.warning(
            "mixed | no choice within the size loses less than %g; the best is taken", budget.max_drop
        )
