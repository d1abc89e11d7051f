"""Choose the layers to leave in float if a quantized network loses too much accuracy."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable

import tensorflow as tf

from detection_core.detectors.base import Detector
from detection_core.detectors.quantization import QuantizedDetector

_logger = logging.getLogger(__name__)

IMAGES = 100
"""Number of images of the split on which choices are compared."""
_FLOAT_BYTES = 3
"""Additional bytes of a weight in float32, compared with int8."""

Score = Callable[[Detector], float]
"""Returns the score of a detector, higher is better, always on the same images."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedBudget:
    """Limits of the choice.

    Attributes:
        max_drop: largest drop of the score below the float detector's. The choice stops at the first number
            of layers that reaches it.
        max_bytes: largest growth of the file.
    """

    max_drop: float
    max_bytes: float = math.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedChoice:
    """Result of the choice.

    Attributes:
        layers: layers in float, in the order in which they were chosen.
        score: of the network with these layers in float.
        float_score: of the float network.
        quantized_score: of the network with all layers quantized.
        added_bytes: growth of the weights compared with int8.
    """

    layers: tuple[str, ...]
    score: float
    float_score: float
    quantized_score: float
    added_bytes: int


def choose_float_layers(
    quantized: QuantizedDetector,
    float_detector: Detector,
    batches: Iterable[tf.Tensor],
    score: Score,
    budget: MixedBudget,
) -> MixedChoice:
    """Leave layers in float, the noisiest first, until the accuracy suffices or the size is used up.

    A layer's noise is measured by the signal-to-noise ratio of the layer alone. The network is scored with 0,
    1, 2, 4, 8, ... layers in float, and with as many as the size allows, until it is good enough.

    Args:
        quantized: a calibrated detector.
        float_detector: its float source.
        batches: float32 [B, H, W, 3], resized pixels, 0..255.
        score: measures a detector.
        budget: limits of the choice.
    """
    float_score = score(float_detector)
    scored: dict[tuple[str, ...], float] = {}
    for layers in _prefixes(quantized, batches, budget):
        scored[layers] = score(quantized.leave_in_float(layers))
        if scored[layers] >= float_score - budget.max_drop:
            break
    best = max(scored, key=scored.__getitem__)  # ties: the first, which has the fewest layers
    choice = MixedChoice(
        layers=best,
        score=scored[best],
        float_score=float_score,
        quantized_score=scored[()],
        added_bytes=_FLOAT_BYTES * quantized.weight_count(best),
    )
    _log(choice, budget)
    return choice


def _prefixes(
    quantized: QuantizedDetector, batches: Iterable[tf.Tensor], budget: MixedBudget
) -> list[tuple[str, ...]]:
    """Return growing prefixes of the layers, the noisiest first, up to the size limit."""
    errors = [error for error in quantized.layer_errors(batches) if error.own_db is not None]
    ranked = sorted(errors, key=lambda error: error.own_db or 0.0)
    prefixes: list[tuple[str, ...]] = [()]
    for error in ranked:
        layers = tuple(dict.fromkeys([*prefixes[-1], *quantized.sharing_range(error.layer)]))
        if _FLOAT_BYTES * quantized.weight_count(layers) > budget.max_bytes:
            break
        if layers != prefixes[-1]:
            prefixes.append(layers)
    kept = {0, len(prefixes) - 1, *(2**n for n in range(len(prefixes).bit_length()))}
    return [layers for number, layers in enumerate(prefixes) if number in kept]


def _log(choice: MixedChoice, budget: MixedBudget) -> None:
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
            "mixed | every choice within the size limit loses more than %g; the best is taken",
            budget.max_drop,
        )
