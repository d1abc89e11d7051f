"""Fit the anchors of google/automl's EfficientDet to the boxes of a data set, without TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from detection_core.detectors.family import AnchorFit
from detection_core.families.efficientdet.anchors import anchor_maps
from detection_core.families.efficientdet.settings import EfficientDetSettings, settings_of
from detection_core.parts.anchors.choice import (
    Candidate,
    choose_anchors,
    sample,
    scales_and_ratios,
    to_pixels,
)
from detection_core.protos.efficientdet_pb2 import EfficientDet


def fit_anchors(message: EfficientDet, where: str, boxes: np.ndarray, *, keep_count: bool) -> AnchorFit:
    """Choose scale, sizes per octave and ratios that fit the boxes; see `family.FitAnchors`."""
    settings = settings_of(message)
    pixels = to_pixels(boxes, settings.image_size)
    given = Candidate({}, anchor_maps(settings, settings.image_size))
    changes = _changes(settings, sample(pixels)) if len(pixels) else iter(())
    others = (Candidate(each, anchor_maps(_changed(settings, each), settings.image_size)) for each in changes)
    return AnchorFit.of(choose_anchors(given, others, pixels, keep_count=keep_count), where)


def _changes(settings: EfficientDetSettings, boxes: np.ndarray) -> Iterator[Mapping[str, Any]]:
    for side, octave, ratios in scales_and_ratios(boxes, max(3, len(settings.anchor_shapes))):
        yield {"anchor_scale": [side], "num_scales": octave, "aspect_ratios": ratios}


def _changed(settings: EfficientDetSettings, changes: Mapping[str, Any]) -> EfficientDetSettings:
    return dataclasses.replace(
        settings,
        num_scales=changes["num_scales"],
        anchor_shapes=tuple((ratio**0.5, ratio**-0.5) for ratio in changes["aspect_ratios"]),
        anchor_scale=tuple(changes["anchor_scale"]) * len(settings.levels),
    )
