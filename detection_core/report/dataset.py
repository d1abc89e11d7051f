"""What a dataset card says, for a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from detection_core.artifacts.box_profile import BoxProfiles
from detection_core.artifacts.dataset_card import DatasetCard
from detection_core.artifacts.pictures import SAMPLE, SMALLEST, list_pictures
from detection_core.artifacts.quarantine import QUARANTINE, QuarantinedEntry
from detection_core.report.figures import BarChart, HeatMap, profile_charts, profile_maps
from detection_core.report.pictures import Picture, PictureBudget

_ROWS = 50


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetSummary:
    """A data set as its section of a page shows it.

    Attributes:
        card: its numbers.
        quarantined: rejected images and annotations.
        folder: of the examples.
        profiles: their boxes; None of examples that an older version made.
        samples: class to images with objects of it.
        smallest: the smallest boxes, enlarged.
    """

    card: DatasetCard
    quarantined: Sequence[QuarantinedEntry] = ()
    folder: str = ""
    profiles: BoxProfiles | None = None
    samples: Mapping[str, Sequence[Picture]] = dataclasses.field(default_factory=dict)
    smallest: Sequence[Picture] = ()

    @property
    def charts(self) -> list[BarChart]:
        """Charts of the boxes; none where they are not known."""
        return profile_charts(self.profiles.splits) if self.profiles else []

    @property
    def maps(self) -> list[HeatMap]:
        """Maps of the boxes; none where they are not known."""
        return profile_maps(self.profiles.splits) if self.profiles else []

    @property
    def most_objects(self) -> int:
        """Objects of the most frequent class, 1 at least: what a bar of full width stands for."""
        return max((c.objects for c in self.card.classes), default=0) or 1

    @property
    def rows(self) -> Sequence[QuarantinedEntry]:
        """The entries that are listed."""
        return self.quarantined[:_ROWS]

    @property
    def more_rows(self) -> int:
        """Number of entries that are not listed."""
        return max(0, len(self.quarantined) - _ROWS)

    @property
    def list(self) -> str:
        """Path of the complete list."""
        return QUARANTINE.path(self.folder)


def embed_samples(folder: str, budget: PictureBudget) -> tuple[dict[str, list[Picture]], list[Picture]]:
    """Return class to pictures of it, and pictures of the smallest boxes, as DataValidator drew them.

    Args:
        folder: with `pictures/index.json`; one without, or "", has none.
        budget: of the page.
    """
    samples: dict[str, list[Picture]] = {}
    smallest: list[Picture] = []
    for entry in list_pictures(folder) if folder else []:
        if entry.kind in (SAMPLE, SMALLEST):
            picture = budget.embed_one(entry)
            if picture is not None:
                (smallest if entry.kind == SMALLEST else samples.setdefault(entry.caption, [])).append(
                    picture
                )
    return samples, smallest
