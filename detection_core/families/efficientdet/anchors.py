"""Anchors of google/automl's EfficientDet, and their fit to a data set, without TensorFlow.

Strides are the input's sides divided by the map's, a fraction where a side is not a multiple.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from detection_core.detectors.family import AnchorFit
from detection_core.families.efficientdet.settings import EfficientDetSettings, settings_of
from detection_core.parts.anchors import choice
from detection_core.protos.efficientdet_pb2 import EfficientDet


def anchor_maps(settings: EfficientDetSettings, size: tuple[int, int]) -> list[choice.AnchorMap]:
    """Return the anchors of each level, finest first, for an input of (rows, columns)."""
    maps = []
    for shape, scale in zip(settings.map_shapes(size), settings.anchor_scale, strict=True):
        stride = size[0] / shape[0], size[1] / shape[1]
        sizes = []
        for octave in range(settings.num_scales):
            factor = scale * 2 ** (octave / settings.num_scales)
            sizes += [
                (factor * stride[0] * height, factor * stride[1] * width)
                for width, height in settings.anchor_shapes
            ]
        offset = stride[0] / 2, stride[1] / 2
        maps.append(choice.AnchorMap(shape=shape, stride=stride, offset=offset, sizes=sizes))
    return maps


def anchors_px(settings: EfficientDetSettings, size: tuple[int, int]) -> np.ndarray:
    """Return anchors by level, row, column, scale and shape, float32 [A, 4], input pixels, not clipped."""
    return np.concatenate([_laid(level) for level in anchor_maps(settings, size)]).astype(np.float32)


def normalized_anchors(settings: EfficientDetSettings) -> np.ndarray:
    """Return the anchors of the settings' input size, float32 [A, 4], normalised to it; see `anchors_px`."""
    rows, columns = settings.image_size
    anchors: np.ndarray = anchors_px(settings, (rows, columns)) / np.float32([rows, columns] * 2)
    return anchors


def _laid(level: choice.AnchorMap) -> np.ndarray:
    rows, columns = (
        offset + stride * np.arange(count)
        for offset, stride, count in zip(level.offset, level.stride, level.shape, strict=True)
    )
    y, x = np.broadcast_arrays(rows[:, np.newaxis], columns)
    centres = np.stack([y, x, y, x], axis=-1)[:, :, np.newaxis]
    half = np.array(level.sizes) / 2
    return (centres + np.concatenate([-half, half], axis=1)).reshape(-1, 4)


def anchor_boxes(message: EfficientDet, where: str) -> np.ndarray:
    """Return the anchors of a config; see `AnchorSupport.boxes`."""
    del where  # Nothing is refused.
    return normalized_anchors(settings_of(message))


def fit_anchors(message: EfficientDet, where: str, boxes: np.ndarray, *, keep_count: bool) -> AnchorFit:
    """Choose scale, sizes per octave and ratios that fit the boxes; see `family.FitAnchors`."""
    settings = settings_of(message)
    pixels = choice.to_pixels(boxes, settings.image_size)
    given = choice.Candidate({}, anchor_maps(settings, settings.image_size))
    changes = _changes(settings, choice.sample(pixels)) if len(pixels) else iter(())
    others = (
        choice.Candidate(each, anchor_maps(_changed(settings, each), settings.image_size)) for each in changes
    )
    return AnchorFit.of(choice.choose_anchors(given, others, pixels, keep_count=keep_count), where)


def _changes(settings: EfficientDetSettings, boxes: np.ndarray) -> Iterator[Mapping[str, Any]]:
    for side, octave, ratios in choice.scales_and_ratios(boxes, max(3, len(settings.anchor_shapes))):
        yield {"anchor_scale": [side], "num_scales": octave, "aspect_ratios": ratios}


def _changed(settings: EfficientDetSettings, changes: Mapping[str, Any]) -> EfficientDetSettings:
    return dataclasses.replace(
        settings,
        num_scales=changes["num_scales"],
        anchor_shapes=tuple((ratio**0.5, ratio**-0.5) for ratio in changes["aspect_ratios"]),
        anchor_scale=tuple(changes["anchor_scale"]) * len(settings.levels),
    )
