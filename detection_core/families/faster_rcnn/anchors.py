"""Anchors of the first stage, and their fit to the boxes of a data set, without TensorFlow."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from detection_core.builders.anchor_grids import grid_of_pairs
from detection_core.config.messages.sizes import network_size
from detection_core.config.paths.overrides import with_fields
from detection_core.detectors.family import AnchorFit
from detection_core.families.faster_rcnn.extractors import EXTRACTORS, has_pyramid
from detection_core.parts.anchors import choice
from detection_core.protos.faster_rcnn_pb2 import FasterRcnn

_GRID = "first_stage_anchor_generator.grid_anchor_generator"
_FINER = 0.1  # fraction of the boxes that a finer feature map must match in addition, as it costs more


def anchor_map(message: FasterRcnn, size: tuple[int, int]) -> choice.AnchorMap:
    """Return the anchors of a checked message with a grid, for an input of (rows, columns)."""
    grid = grid_of_pairs(message.first_stage_anchor_generator.grid_anchor_generator)
    stride = message.feature_extractor.first_stage_features_stride
    return choice.AnchorMap(shape=(-(-size[0] // stride), -(-size[1] // stride)), **vars(grid))


def fit_anchors(message: FasterRcnn, where: str, boxes: np.ndarray, *, keep_count: bool) -> AnchorFit | None:
    """Choose scales and aspect ratios that fit the boxes; see `family.FitAnchors`.

    Without `keep_count` also choose a finer feature map, if its anchors match many more boxes. None for a
    pyramid and for images of different sizes.
    """
    size, extractor = network_size(message.image_resizer), message.feature_extractor
    grid = message.first_stage_anchor_generator.HasField("grid_anchor_generator")
    if size is None or not grid or has_pyramid(extractor):
        return None
    pixels, given = choice.to_pixels(boxes, size), choice.Candidate({}, [anchor_map(message, size)])
    own = extractor.first_stage_features_stride
    finer = [stride for stride in EXTRACTORS[extractor.type].strides if stride < own and not keep_count]
    fits = []
    for stride in (own, *finer):
        changes = (each | _strides(stride, own) for each in _candidates(message, choice.sample(pixels)))
        others = (choice.Candidate(each, [anchor_map(with_fields(message, each), size)]) for each in changes)
        fits.append(choice.choose_anchors(given, others, pixels, keep_count=keep_count))
    best = max(fit.fitted for fit in fits)
    return AnchorFit.of(next(fit for fit in fits if fit.fitted >= best - _FINER), where)


def _strides(stride: int, own: int) -> dict[str, Any]:
    if stride == own:
        return {}
    names = "feature_extractor.first_stage_features_stride", f"{_GRID}.height_stride", f"{_GRID}.width_stride"
    return dict.fromkeys(names, stride)


def _candidates(message: FasterRcnn, boxes: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield scales between small and large boxes, float [N, 4] in pixels, with the clusters' ratios."""
    grid = message.first_stage_anchor_generator.grid_anchor_generator
    areas = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1)
    sides = np.sqrt(areas[areas > 0] / (grid.height * grid.width))
    if not len(sides):
        return
    lows, highs = np.quantile(sides, (0.02, 0.1, 0.3, 0.5)), np.quantile(sides, (0.5, 0.7, 0.9, 0.98))
    for ratios in range(1, len(grid.aspect_ratios) + 1):
        shapes = choice.aspect_ratios(boxes, ratios)
        for count in range(1, len(grid.scales) + 1):
            for scales in (np.geomspace(low, high, count) for low in lows for high in highs):
                rounded = [float(f"{scale:.2g}") for scale in scales]
                yield {f"{_GRID}.scales": rounded, f"{_GRID}.aspect_ratios": shapes}
