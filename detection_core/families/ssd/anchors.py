"""Fit the anchors of a one-stage detector to the boxes of a data set, without TensorFlow."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from detection_core.builders.anchor_grids import listed_grid
from detection_core.config.messages.anchors import ssd_anchor_layers
from detection_core.config.messages.sizes import fixed_size
from detection_core.config.paths.overrides import with_fields
from detection_core.detectors.family import AnchorFit
from detection_core.families.ssd.extractors import map_shapes
from detection_core.parts.anchors import choice
from detection_core.protos.ssd_pb2 import Ssd


def anchor_maps(ssd: Ssd, size: tuple[int, int]) -> list[choice.AnchorMap]:
    """Return the anchors of a checked message by feature map, for an input of (rows, columns)."""
    arm = str(ssd.anchor_generator.WhichOneof("anchor_generator_oneof"))
    return _MAPS[arm](getattr(ssd.anchor_generator, arm), size, map_shapes(ssd.feature_extractor, *size))


def fit_anchors(ssd: Ssd, where: str, boxes: np.ndarray, *, keep_count: bool) -> AnchorFit:
    """Choose anchor sizes and ratios that fit the boxes; see `family.FitAnchors`.

    Candidates are tried on a sample of the boxes; see `parts.anchors.choice`.
    """
    size = fixed_size(ssd.image_resizer)
    pixels = choice.to_pixels(boxes, size)
    arm = str(ssd.anchor_generator.WhichOneof("anchor_generator_oneof"))
    changes: Iterator[dict[str, Any]] = iter(())
    if arm in _CANDIDATES and len(pixels):
        changes = _CANDIDATES[arm](getattr(ssd.anchor_generator, arm), choice.sample(pixels), size)
    given = choice.Candidate({}, anchor_maps(ssd, size))
    others = (choice.Candidate(each, anchor_maps(_changed(ssd, each), size)) for each in changes)
    chosen = choice.choose_anchors(given, others, pixels, keep_count=keep_count)
    return AnchorFit.of(chosen, f"{where}.anchor_generator.{arm}")


_Shapes = list[tuple[int, int]]


def _changed(ssd: Ssd, changes: Mapping[str, Any]) -> Ssd:
    arm = ssd.anchor_generator.WhichOneof("anchor_generator_oneof")
    return with_fields(ssd, {f"anchor_generator.{arm}.{name}": value for name, value in changes.items()})


def _multiscale_maps(message: Any, size: tuple[int, int], shapes: _Shapes) -> list[choice.AnchorMap]:
    steps = range(message.scales_per_octave)
    scales = [message.anchor_scale * 2 ** (step / message.scales_per_octave) for step in steps]
    maps = []
    for level, shape in enumerate(shapes, message.min_level):
        stride = float(2**level)
        first = [stride / 2 if side % stride == 0 else 0.0 for side in size]
        sizes = [choice.size_of(scale * stride, ratio) for ratio in message.aspect_ratios for scale in scales]
        maps.append(
            choice.AnchorMap(shape=shape, stride=(stride, stride), offset=(first[0], first[1]), sizes=sizes)
        )
    return maps


def _ssd_maps(message: Any, size: tuple[int, int], shapes: _Shapes) -> list[choice.AnchorMap]:
    shorter = min(size)
    base = message.base_anchor_height * shorter, message.base_anchor_width * shorter
    maps = []
    layers = choice.sizes_by_layer(message, ssd_anchor_layers(message))
    for layer, (shape, specs) in enumerate(zip(shapes, layers, strict=True)):
        sizes = [(height * base[0], width * base[1]) for height, width in specs]
        stride = _pair(message, "stride", layer) or (size[0] / shape[0], size[1] / shape[1])
        offset = _pair(message, "offset", layer) or (stride[0] / 2, stride[1] / 2)
        maps.append(choice.AnchorMap(shape=shape, stride=stride, offset=offset, sizes=sizes))
    return maps


def _pair(message: Any, kind: str, layer: int) -> tuple[float, float] | None:
    values = getattr(message, f"height_{kind}"), getattr(message, f"width_{kind}")
    return (float(values[0][layer]), float(values[1][layer])) if values[0] else None


def _flexible_maps(message: Any, size: tuple[int, int], shapes: _Shapes) -> list[choice.AnchorMap]:
    grids = zip(map(listed_grid, message.anchor_grid), shapes, strict=True)
    return [choice.AnchorMap(shape=shape, **vars(grid)) for grid, shape in grids]


_MAPS: dict[str, Callable[[Any, tuple[int, int], _Shapes], list[choice.AnchorMap]]] = {
    "multiscale_anchor_generator": _multiscale_maps,
    "ssd_anchor_generator": _ssd_maps,
    "flexible_grid_anchor_generator": _flexible_maps,
}


def _multiscale_candidates(
    message: Any, boxes: np.ndarray, size: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    """Yield smallest anchors of 1 to 8 cells, one to three scales per octave, with the clusters' ratios."""
    for scale, octave, ratios in choice.scales_and_ratios(boxes, max(3, len(message.aspect_ratios))):
        yield {"anchor_scale": scale, "scales_per_octave": octave, "aspect_ratios": ratios}


def _ssd_candidates(message: Any, boxes: np.ndarray, size: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """Yield scales between the small and the large boxes, with the clusters' ratios."""
    sides = np.sqrt(np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1)) / min(size)
    lows, highs = np.quantile(sides, (0.02, 0.05, 0.1, 0.2, 0.3)), np.quantile(sides, (0.7, 0.9, 0.98))
    pairs = {(float(f"{low:.2g}"), float(f"{high:.2g}")) for low in lows for high in highs}
    bounds = sorted((low, high) for low, high in pairs if 0 < low < high)
    for count in range(1, len(message.aspect_ratios) + 1):
        if ratios := choice.aspect_ratios(boxes, count):
            for low, high in bounds:
                layers = ssd_anchor_layers(message)
                even = [low * (high / low) ** (layer / max(layers - 1, 1)) for layer in range(layers)]
                yield {"aspect_ratios": ratios, "scales": [float(f"{scale:.2g}") for scale in even]}


_CANDIDATES: dict[str, Callable[[Any, np.ndarray, tuple[int, int]], Iterator[dict[str, Any]]]] = {
    "multiscale_anchor_generator": _multiscale_candidates,
    "ssd_anchor_generator": _ssd_candidates,
}
