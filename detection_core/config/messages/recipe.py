"""Mixing augmentations, and what else detflow adds to how detectors are trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.config.problems import Problem
from detection_core.config.rules import FRACTION, Range, Rules, up_to

_MIXED_SIDE = up_to(16_384, 2)
_POINT = Range(0, 0.5, "a number from 0 to below 0.5", open_high=True)


def _colour(message: Any, path: str) -> Iterator[Problem]:
    """Find a colour that is not given by three values."""
    found = list(message.per_channel_pad_value)
    if len(found) not in (0, 3):
        text = f"expected 3 values or none, found {len(found)}; give R, G and B"
        yield Problem(path=f"{path}.per_channel_pad_value", message=text)


RULES: Mapping[str, Rules] = {
    "Mosaic": Rules(
        "builders.augment",
        ranges={
            "height": _MIXED_SIDE,
            "width": _MIXED_SIDE,
            "min_fraction": _POINT,
            "min_visible": FRACTION,
            "per_channel_pad_value": Range(0, 255, "a number from 0 to 255"),
        },
        check=_colour,
    ),
}
