"""How well the anchors of a config fit the boxes of a data set: anchor_matches.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.box_profile import Histogram, SizeGrid
from detection_core.artifacts.json_file import JsonFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorMatch:
    """The boxes of a split, and the anchor that fits each best.

    Attributes:
        boxes: how many were looked at.
        matched: of them, those whose anchor has the overlap that objects are matched at, 0.5.
        overlaps: boxes by the intersection over union with their anchor.
        sizes: boxes by height and width, as fractions of the network's input.
        unmatched: those of them that are not matched.
    """

    boxes: int
    matched: int
    overlaps: Histogram
    sizes: SizeGrid
    unmatched: SizeGrid


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorMatches:
    """What anchor_matches.json holds.

    Attributes:
        input_size: rows and columns of the network's input.
        anchors: how many there are.
        shapes: the different heights and widths of anchors, as fractions of the input.
        splits: split to its boxes.
    """

    input_size: tuple[int, int]
    anchors: int
    shapes: list[tuple[float, float]]
    splits: Mapping[str, AnchorMatch]


ANCHOR_MATCHES = JsonFile(
    name="anchor_matches.json",
    content=AnchorMatches,
    writer="detflow data report",
    remedy="make the report again",
    indent=None,
)
