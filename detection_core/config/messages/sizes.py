"""How much memory a config asks for, computed without tensors, to refuse it before allocation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from detection_core.config.messages.anchors import anchors_per_location
from detection_core.config.messages.efficientdet import efficientdet_problems, settings_of
from detection_core.config.messages.extractors import least_side_problems, map_levels, map_shapes
from detection_core.config.messages.image_resizers import network_size
from detection_core.errors import Problem
from detection_core.protos.efficientdet_pb2 import EfficientDet
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.protos.ssd_pb2 import Ssd

MAX_IMAGE_PIXELS = 2**26
"""Of the network's input; 8,192 x 8,192."""
MAX_BATCH_PIXELS = 2**32
"""Of all images of a batch: 48 GiB of float32 with three channels."""
MAX_ANCHORS = 2**23
MAX_SCORES = 2**31
"""Scores and box codes for one image: 8 GiB of float32."""
MAX_PREDICTOR_CHANNELS = 2**23
"""Of one layer that predicts scores: with 256 channels before it its kernel has 2^31 numbers."""


def image_size_problems(
    resizer: ImageResizer, path: str, batch_size: int
) -> tuple[list[Problem], tuple[int, int] | None]:
    """Find images, or batches of them, that are too large.

    Args:
        resizer: the message.
        path: its field path.
        batch_size: images of a batch.

    Returns:
        The problems, and rows and columns of the network's input; None where they are not known or are
        themselves too many.
    """
    size = network_size(resizer)
    if size is None or min(size) < 1:
        return [], None
    pixels = size[0] * size[1]
    if pixels > MAX_IMAGE_PIXELS:
        return [_too_many("pixels of an image", pixels, MAX_IMAGE_PIXELS, path, "make images smaller")], None
    if batch_size * pixels > MAX_BATCH_PIXELS:
        what = f"pixels of a batch of {size[0]:,} x {size[1]:,} images"
        found = batch_size * pixels
        return [_too_many(what, found, MAX_BATCH_PIXELS, "train_config.batch_size", "lower it")], size
    return [], size


def prediction_size_problems(ssd: Ssd, path: str, size: tuple[int, int]) -> Iterator[Problem]:
    """Find an input that is too small, and more anchors, scores or channels of a head than fit into memory.

    Args:
        ssd: the model.
        path: its field path.
        size: rows and columns of the network's input.
    """
    yield from least_side_problems(ssd.feature_extractor, f"{path}.feature_extractor", size)
    levels = map_levels(ssd.feature_extractor)
    # What is not yet known to fit is refused elsewhere, before it is multiplied out.
    if levels is None or len(levels) > 64 or (levels and levels[-1] > 64):
        return
    counts = anchors_per_location(ssd.anchor_generator) if _is_countable(ssd) else []
    if not counts or len(counts) != len(levels):
        return
    shapes = map_shapes(ssd.feature_extractor, *size)
    anchors = sum(rows * columns * count for (rows, columns), count in zip(shapes, counts, strict=True))
    laid = _Laid(anchors, max(counts), f"{path}.anchor_generator")
    yield from _predictions(laid, ssd.num_classes, f"{path}.num_classes")


def efficientdet_size_problems(message: EfficientDet, path: str, size: tuple[int, int]) -> Iterator[Problem]:
    """Find more anchors, scores or channels of a head than fit into memory.

    Args:
        message: the model.
        path: its field path.
        size: rows and columns of the network's input.
    """
    # A message with other problems cannot be resolved, and is refused for them.
    if any(efficientdet_problems(message, path)):
        return
    settings = settings_of(message)
    count = settings.anchors_per_location
    anchors = count * sum(rows * columns for rows, columns in settings.map_shapes(size))
    laid = _Laid(anchors, count, f"{path}.num_scales")
    yield from _predictions(laid, message.num_classes, f"{path}.num_classes")


class _Laid(NamedTuple):
    """Anchors of an image, the most at one place, and the field that says so."""

    anchors: int
    most: int
    path: str


def _predictions(laid: _Laid, num_classes: int, path: str) -> Iterator[Problem]:
    columns = num_classes + 4
    if laid.anchors > MAX_ANCHORS:
        advice = "give fewer aspect_ratios or scales, or coarser levels"
        yield _too_many("anchors on an image", laid.anchors, MAX_ANCHORS, laid.path, advice)
    elif laid.anchors * columns > MAX_SCORES:
        what = f"scores and codes of {laid.anchors:,} anchors"
        advice = "use fewer classes or anchors"
        yield _too_many(what, laid.anchors * columns, MAX_SCORES, path, advice)
    elif laid.most * columns > MAX_PREDICTOR_CHANNELS:
        what = f"channels of the layer that predicts {laid.most} anchors"
        advice = "use fewer classes or anchors"
        yield _too_many(what, laid.most * columns, MAX_PREDICTOR_CHANNELS, path, advice)


def _is_countable(ssd: Ssd) -> bool:
    """Tell whether the layers of a generator are few enough to be listed."""
    multiscale = ssd.anchor_generator.multiscale_anchor_generator
    spread = multiscale.max_level - multiscale.min_level
    return spread < 64 and ssd.anchor_generator.ssd_anchor_generator.num_layers <= 64


def _too_many(what: str, found: int, most: int, path: str, advice: str) -> Problem:
    return Problem(path=path, message=f"expected at most {most:,} {what}, found {found:,}; {advice}")
