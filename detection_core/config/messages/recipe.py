"""Mixing augmentations, and other training options that detflow adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.allowed_values import FACTOR, FRACTION, SIDE, Range, up_to
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.recipe_pb2 import LargeScaleJitter, MultiScale

_MIXED_SIDE = up_to(16_384, 2)
_MOST_SCALES = 9
_POINT = Range(0, 0.5, "a number from 0 to below 0.5", open_high=True)


def _colour(message: Any, path: str) -> Iterator[Problem]:
    found = list(message.per_channel_pad_value)
    if len(found) not in (0, 3):
        text = f"expected 3 values or none, found {len(found)}; give R, G and B"
        yield Problem(path=f"{path}.per_channel_pad_value", message=text)


def _scales(message: Any, path: str) -> Iterator[Problem]:
    """Find a range of scales with swapped ends."""
    if message.scale_max < message.scale_min:
        text = f"expected at least scale_min, which is {message.scale_min:g}, found {message.scale_max:g}"
        yield Problem(path=f"{path}.scale_max", message=f"{text}; exchange them")


def _jitter(message: LargeScaleJitter, path: str) -> Iterator[Problem]:
    yield from _scales(message, path)
    yield from _colour(message, path)


def _many_scales(message: MultiScale, path: str) -> Iterator[Problem]:
    """Find too many sizes, because each one is compiled."""
    if len(message.scale) > _MOST_SCALES:
        text = f"expected at most {_MOST_SCALES} scales, found {len(message.scale)}; each is compiled"
        yield Problem(path=f"{path}.scale", message=text)


_PIXEL = Range(0, 255, "a number from 0 to 255")
_SCALES = {"scale_min": FACTOR, "scale_max": FACTOR}

RULES: Mapping[str, Rules] = {
    "Mosaic": Rules(
        "builders.augment",
        ranges={
            "height": _MIXED_SIDE,
            "width": _MIXED_SIDE,
            "min_fraction": _POINT,
            "min_visible": FRACTION,
            "per_channel_pad_value": _PIXEL,
        },
        check=_colour,
    ),
    "MixUp": Rules("augment.mixing", ranges={"alpha": Range(0.01, 100, "a number from 0.01 to 100")}),
    "CopyPaste": Rules(
        "augment.mixing",
        ranges={"object_probability": FRACTION, **_SCALES, "min_visible": FRACTION},
        check=_scales,
    ),
    "LargeScaleJitter": Rules(
        "augment.scaling",
        ranges={
            "height": SIDE,
            "width": SIDE,
            **_SCALES,
            "min_visible": FRACTION,
            "per_channel_pad_value": _PIXEL,
        },
        check=_jitter,
    ),
    "MultiScale": Rules(
        "builders.multi_scale",
        ranges={
            "scale": Range(0.25, 4, "a number from 0.25 to 4"),
            "steps_per_scale": up_to(1_000_000),
        },
        check=_many_scales,
    ),
}
