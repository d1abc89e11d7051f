"""Checks for near-identical images, within a split and between `train` and another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from detection_core.artifacts.data_findings import FoundExample, OtherExample
from detection_core.optional.near_duplicates.hamming_index import band_count
from detection_core.optional.near_duplicates.near_duplicates import (
    MAX_DISTANCE,
    NearDuplicates,
    NearestImages,
    find_near_duplicates,
    find_nearest_images,
)
from detection_core.progress import Progress
from detection_core.validation.checks import EXAMPLES_LISTED, FindingList
from detection_core.validation.duplicates import Copies

Hashes = Mapping[str, Sequence[bytes | None]]
_TRAIN = "train"


def check_near_copies(hashes: Hashes, copies: Copies, findings: FindingList) -> None:
    """Look for near-identical images, except `copies` with the same file, which another check reports."""
    searches = [
        *((_check_within, split, split) for split in hashes if findings.is_on("near_duplicates")),
        *(
            (_check_across, split, _TRAIN)
            for split in hashes
            if split != _TRAIN and hashes.get(_TRAIN) and findings.is_on("near_leakage")
        ),
    ]
    searches = [search for search in searches if hashes[search[1]]]
    with Progress("look alike", total=len(searches) * band_count(MAX_DISTANCE), unit="band") as progress:
        for search, split, other in searches:
            known = {pair.record for pair in copies.get((split, other), ())}
            search(_Search(split=split, hashes=hashes, known=known, progress=progress), findings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Search:
    """Searches hashes by split, except `known` records of copies, which another check reports."""

    split: str
    hashes: Hashes
    known: Collection[int]
    progress: Progress

    @property
    def here(self) -> Sequence[bytes | None]:
        return self.hashes[self.split]

    def new(self, found: np.ndarray) -> list[int]:
        """Return the found records that are not known."""
        return [record for record in found.tolist() if record not in self.known]


def _check_within(search: _Search, findings: FindingList) -> None:
    split, images = search.split, len(search.here)
    near = find_near_duplicates(search.here, on_band=search.progress.advance)
    records = search.new(np.flatnonzero(near.groups != np.arange(images)))
    findings.add_share(
        "near_duplicates",
        split,
        len(records),
        images,
        f"images of {split} look like another one of it; they add little, and weigh more than others: keep"
        " some",
        more="" if near.complete else " or more",
        examples=_examples(split, split, records, near),
    )


def _check_across(search: _Search, findings: FindingList) -> None:
    split, images = search.split, len(search.here)
    near = find_nearest_images(search.here, search.hashes[_TRAIN], on_band=search.progress.advance)
    records = search.new(np.flatnonzero(near.nearest >= 0))
    findings.add_share(
        "near_leakage",
        split,
        len(records),
        images,
        f"images of {split} look like one of train; what is learnt there is measured there: keep pictures of"
        " one scene in one split",
        more="" if near.complete else " or more",
        examples=_examples(split, _TRAIN, records, near),
    )


def _examples(
    split: str, other: str, records: Sequence[int], near: NearDuplicates | NearestImages
) -> list[FoundExample]:
    return [
        FoundExample(
            split=split,
            source_id="",
            record=record,
            note=f"{near.distances[record]} of 256 bits differ",
            other=OtherExample(split=other, source_id="", record=int(near.nearest[record])),
        )
        for record in records[:EXAMPLES_LISTED]
    ]
