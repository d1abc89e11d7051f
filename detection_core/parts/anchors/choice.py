"""Chooses among anchors by the boxes of a data set, whatever generates them.

As many boxes as possible are to have an anchor like them, for as few anchors as that takes: Redmon and
Farhadi, 2017, section 2, https://arxiv.org/abs/1612.08242.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from detection_core.parts.anchors.coverage import (
    AnchorMap,
    aspect_clusters,
    best_overlaps,
    matched_fraction,
)

SIDES = tuple(float(f"{2 ** (step / 6):.2g}") for step in range(19))
"""Sides of the smallest anchor that are tried, in cells: from 1 to 8."""
_FEW = 3_000  # boxes that candidates are tried on
_WORTH = 0.004  # of all boxes: what a further anchor at each place has to match to be laid
_BESIDE = 1.5  # a ratio so many times another one is a shape of its own


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Anchors that may be chosen.

    Attributes:
        changes: field of the configuration to value, by which it differs from the one that was given.
        maps: all anchors.
    """

    changes: Mapping[str, Any]
    maps: Sequence[AnchorMap]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """What was chosen.

    Attributes:
        changes: as a `Candidate` has them; empty where the given anchors are the best that were tried.
        default: part of the boxes that the given anchors match, at an intersection over union of 0.5.
        fitted: part that the chosen ones match.
        anchors: boxes that are then predicted for one image.
    """

    changes: Mapping[str, Any]
    default: float
    fitted: float
    anchors: int


def to_pixels(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return boxes normalised to an input of so many rows and columns as pixels of it, float64 [N, 4]."""
    return np.asarray(boxes, np.float64).reshape(-1, 4) * np.array([*size, *size], np.float64)


def sample(boxes: np.ndarray) -> np.ndarray:
    """Return the boxes that candidates are made for and tried on: some thousands at most."""
    return boxes[:: max(1, len(boxes) // _FEW)]


def choose_anchors(
    given: Candidate, others: Iterable[Candidate], boxes: np.ndarray, *, keep_count: bool
) -> Chosen:
    """Choose anchors by boxes.

    A further anchor at each place has to match enough boxes more to be worth its time.

    Args:
        given: the configuration's own.
        others: what they may be changed to.
        boxes: float [N, 4], pixels of the network's input.
        keep_count: as many anchors at each place as there are.
    """
    best = _best([given, *others], sample(boxes), keep_count) if len(boxes) else given
    default = matched_fraction(best_overlaps(boxes, given.maps))
    fitted = matched_fraction(best_overlaps(boxes, best.maps))
    fewer = _count(best.maps) < _count(given.maps)
    if fitted < default + (-_WORTH if fewer else _WORTH):
        best, fitted = given, default
    return Chosen(
        changes=best.changes,
        default=default,
        fitted=fitted,
        anchors=sum(anchors.count for anchors in best.maps),
    )


def _best(candidates: Sequence[Candidate], boxes: np.ndarray, keep_count: bool) -> Candidate:
    tried: list[tuple[float, float, Candidate]] = []
    places = _count(candidates[0].maps)
    for candidate in candidates:
        count = _count(candidate.maps)
        if keep_count and count != places:
            continue
        overlaps = best_overlaps(boxes, candidate.maps)
        # Anchors that are alike match alike many: of these the nearer ones are better.
        worth = (
            matched_fraction(overlaps) + 0.1 * float(overlaps.mean()) - _WORTH * count / len(candidate.maps)
        )
        tried.append((worth, -count, candidate))
    return max(tried, key=lambda entry: entry[:2])[2]


def _count(maps: Sequence[AnchorMap]) -> int:
    """Return the anchors of a cell, over all maps."""
    return sum(len(anchors.sizes) for anchors in maps)


def scales_and_ratios(boxes: np.ndarray, ratios: int) -> Iterable[tuple[float, int, list[float]]]:
    """Yield sides of the smallest anchor in cells, sizes an octave, and the boxes' aspect ratios.

    Args:
        boxes: float [N, 4], pixels.
        ratios: most aspect ratios.
    """
    for count in range(1, ratios + 1):
        if found := aspect_ratios(boxes, count):
            for side, octave in itertools.product(SIDES, (1, 2, 3)):
                yield side, octave, found


def aspect_ratios(boxes: np.ndarray, count: int) -> list[float]:
    """Return so many ratios of width to height for boxes; where these have fewer, others beside them."""
    ratios = list(aspect_clusters(boxes, count))
    for step in range(1, count + 1):
        if not 0 < len(ratios) < count:
            break
        beside = ratios[0] * _BESIDE**step, ratios[0] / _BESIDE**step
        ratios += [float(f"{ratio:.2g}") for ratio in beside][: count - len(ratios)]
    return sorted(ratios)
