"""Histograms of boxes: box_profile.json describes examples, anchor_matches.json a config's anchors."""

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counts by bin.

    Attributes:
        up_to: upper edge of each bin; larger values count in the last bin.
        counts: count of each bin.
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
        up_to: upper edges of the bins, the same for both axes.
        counts: rows are heights, columns are widths.
    """

    up_to: list[float]
    counts: list[list[int]]

    def __post_init__(self) -> None:
        if {len(self.counts), *map(len, self.counts)} != {len(self.up_to)}:
            raise ValueError(f"expected {len(self.up_to)} rows of as many counts, found others")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxProfile:
    """Statistics of a split's boxes, without crowd boxes.

    Attributes:
        boxes: number of boxes.
        sizes: boxes by height and width.
        aspects: boxes by aspect ratio (width / height), measured in image pixels.
        sides_px: boxes by the square root of their area, image pixels.
        per_image: images by number of boxes.
        centres: number of box centres in each cell of a grid over the image, rows from the top.
        coverage: number of boxes that cover the centre of each cell.
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
    """The content of box_profile.json.

    Attributes:
        splits: split to its statistics.
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
    """How well the anchors fit a split's boxes.

    Attributes:
        boxes: number of boxes examined.
        matched: boxes whose best anchor has an IoU of at least 0.5, the matching threshold.
        overlaps: boxes by IoU with their best anchor.
        sizes: boxes by height and width, as fractions of the network's input.
        unmatched: unmatched boxes, likewise.
    """

    boxes: int
    matched: int
    overlaps: Histogram
    sizes: SizeGrid
    unmatched: SizeGrid


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorMatches:
    """The content of anchor_matches.json.

    Attributes:
        input_size: rows and columns of the network's input.
        anchors: number of anchors.
        shapes: distinct anchor heights and widths, as fractions of the input.
        splits: split to its statistics.
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
