"""Assignment of images to splits."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Mapping
from typing import Any

from detection_core.errors import ConfigError, shorten

_NAME = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*")


@dataclasses.dataclass(frozen=True)
class CheckedSplits:
    """The splits of a data set, sorted by name, so that their order in the settings makes no difference.

    Attributes:
        ratios: split name to its fraction of the images; empty for splits with locations.
        locations: split name to the location of its annotations; for splits by ratio, "" to None: all images
            are read together.
    """

    ratios: Mapping[str, float]
    locations: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """Split names in alphabetical order."""
        return list(self.ratios or self.locations)


def check_splits(splits: Mapping[str, Any]) -> CheckedSplits:
    """Check the `splits` parameter: split name to ratio, or split name to the location of its annotations.

    Raises:
        ConfigError: if there is none, ratios and locations are mixed, or the ratios do not add up to 1.
    """
    if not splits:
        raise ConfigError(f'expected {{"train": 0.8, ...}}, found {shorten(splits)}', where="splits")
    for name in splits:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"expected a name of letters, digits, _ and -, found {name!r}", where="splits")
    in_order = dict(sorted(splits.items()))
    ratios = [value for value in in_order.values() if _is_ratio(value)]
    if not ratios:
        return CheckedSplits({}, in_order)
    if len(ratios) < len(in_order):
        raise ConfigError(
            f"expected either ratios or locations, found both: {shorten(in_order)}", where="splits"
        )
    if not (all(0 < ratio <= 1 for ratio in ratios) and abs(sum(ratios) - 1) < 1e-6):
        raise ConfigError(
            f"expected ratios above 0 that add up to 1, found {shorten(in_order)}", where="splits"
        )
    return CheckedSplits(in_order, {"": None})


def is_by_ratio(splits: Mapping[str, Any]) -> bool:
    """Return whether splits are ratios, not locations."""
    return all(_is_ratio(value) for value in splits.values())


def _is_ratio(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def split_position(source_id: str) -> float:
    """Map an image's hash to [0, 1), which determines its split.

    An image stays in its split when images are added or reordered.
    """
    return int.from_bytes(_digest("split", source_id), "big") / 2**64


def split_at(position: float, ratios: Mapping[str, float]) -> str:
    """Return the split at a `split_position`, with the ratios of `CheckedSplits`."""
    edges = list(zip(itertools.accumulate(ratios.values()), ratios, strict=True))
    return next((name for edge, name in edges if position < edge), edges[-1][1])


def order_digest(source_id: str) -> bytes:
    """Return the sort key of a split's images, hash then id: a deterministic shuffle.

    A trainer shuffles within a window of records. Without this, images of one scene, which data sets list
    together, would stay together.
    """
    return _digest("order", source_id)


def _digest(purpose: str, text: str) -> bytes:
    # The id of a rejected image may not be encodable as UTF-8.
    return hashlib.sha256(f"{purpose}\0{text}".encode(errors="backslashreplace")).digest()[:8]
