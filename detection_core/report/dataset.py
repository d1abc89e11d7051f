"""What a dataset card says, for a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from detection_core.artifacts.dataset_card import DatasetCard
from detection_core.artifacts.quarantine import QUARANTINE, QuarantinedEntry

_ROWS = 50


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetSummary:
    """A data set as its section of a page shows it.

    Attributes:
        card: its numbers.
        quarantined: rejected images and annotations.
        folder: of the examples.
    """

    card: DatasetCard
    quarantined: Sequence[QuarantinedEntry] = ()
    folder: str = ""

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
