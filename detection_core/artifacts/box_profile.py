"""Histograms of boxes: box_profile.json of examples, anchor_matches.json of a config's anchors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counts by bin.

    Attributes:
        up_to: upper edge of each bin; what is larger than the last is in the last.
        counts: of each bin.
    """

    up_to: list[float]
    counts: list[int]

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.up_to) or not self.up_to:
            raise ValueError(f"expected a count for each of {len(self.up_to)} bins, found {len(self.counts)}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeGrid:
    """Boxes by height and width, as fractions of the image.

    Attributes:
        up_to: upper edges of the bins of both.
        counts: a row a height, a column a width.
    """

    up_to: list[float]
    counts: list[list[int]]

    def __post_init__(self) -> None:
        if {len(self.counts), *map(len, self.counts)} != {len(self.up_to)}:
            raise ValueError(f"expected {len(self.up_to)} rows of as many counts, found others")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxProfile:
    """The boxes of a split; those round a crowd are left out.

    Attributes:
        boxes: how many.
        sizes: by height and width.
        aspects: by width over height, in pixels of the image.
        sides_px: by the root of the area, pixels of the image.
        per_image: images by number of boxes.
        centres: boxes whose centre is in each cell of a grid laid over the images, rows from the top.
        coverage: boxes that cover the middle of each cell.
    """

    boxes: int
    sizes: SizeGrid
    aspects: Histogram
    sides_px: Histogram
    per_image: Histogram
    centres: list[list[int]]
    coverage: list[list[int]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxProfiles:
    """What box_profile.json holds.

    Attributes:
        splits: split to its boxes.
    """

    splits: Mapping[str, BoxProfile]


BOX_PROFILES = JsonFile(
    name="box_profile.json",
    content=BoxProfiles,
    writer="ExampleGen",
    remedy="make the examples again",
    indent=None,
)


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
