"""Counts how well anchors fit boxes, for `artifacts.anchor_matches`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from detection_core.artifacts.box_profile import AnchorMatch, AnchorMatches, Histogram, SizeGrid
from detection_core.datasets.counts import SIDES
from detection_core.validation.network_view import (
    MATCH_OVERLAP,
    MATCHED,
    NetworkView,
    SampledBoxes,
    evenly_spaced,
)

OVERLAPS = tuple(round(0.1 * step, 1) for step in range(1, 11))
"""Upper edges of the histogram of overlaps."""

_SHAPES = 200
_DIGITS = 4


def match_anchors(samples: Mapping[str, SampledBoxes], view: NetworkView) -> AnchorMatches | None:
    """Hold the boxes of several splits against anchors.

    Args:
        samples: split to some of its boxes.
        view: what the network does with images.

    Returns:
        None for a detector without fixed anchors.
    """
    rows, columns = view.resizer.static_shape[:2]
    if view.anchors is None or rows is None or columns is None:
        return None
    sides = view.anchors[:, 2:] - view.anchors[:, :2]
    shapes = np.unique(np.round(sides.astype(np.float64), _DIGITS), axis=0)
    shown = shapes[np.unique(np.linspace(0, len(shapes) - 1, _SHAPES).astype(int))] if len(shapes) else shapes
    return AnchorMatches(
        input_size=(rows, columns),
        anchors=len(view.anchors),
        shapes=[(float(height), float(width)) for height, width in shown],
        splits={
            split: _match(evenly_spaced(sample, MATCHED), view)
            for split, sample in samples.items()
            if len(sample.boxes)
        },
    )


def _match(sample: SampledBoxes, view: NetworkView) -> AnchorMatch:
    overlaps = np.asarray(view.best_overlaps(sample), np.float64)
    shape = np.asarray(view.resizer.static_shape[:2], np.float64)
    sides = (sample.boxes[:, 2:] - sample.boxes[:, :2]) * view.resized_sizes(sample.sizes) / shape
    matched = overlaps >= MATCH_OVERLAP
    bins = np.minimum(np.searchsorted(OVERLAPS, overlaps - 1e-6, side="left"), len(OVERLAPS) - 1)
    return AnchorMatch(
        boxes=len(overlaps),
        matched=int(matched.sum()),
        overlaps=Histogram(up_to=list(OVERLAPS), counts=np.bincount(bins, minlength=len(OVERLAPS)).tolist()),
        sizes=_grid(sides),
        unmatched=_grid(sides[~matched]),
    )


def _grid(sides: np.ndarray) -> SizeGrid:
    """Count boxes by height and width, float [N, 2], fractions of the input."""
    size = len(SIDES)
    bins = np.minimum(np.searchsorted(SIDES, sides, side="left"), size - 1)
    flat = np.bincount(bins[:, 0] * size + bins[:, 1], minlength=size * size)
    return SizeGrid(up_to=list(SIDES), counts=flat.reshape(size, size).tolist())
