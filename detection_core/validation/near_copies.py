"""Checks for near-identical images, within a split and between `train` and another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from detection_core.artifacts.data_findings import FoundExample, OtherExample
from detection_core.validation.checks import EXAMPLES_LISTED, FindingList
from detection_core.validation.duplicates import Copies
from detection_core.validation.near_duplicates import NearDuplicates, find_near_duplicates

Hashes = Mapping[str, Sequence[bytes | None]]
_TRAIN = "train"


def check_near_copies(hashes: Hashes, copies: Copies, findings: FindingList) -> None:
    """Look for images that look alike without being copies of each other.

    Args:
        hashes: split to the hashes of its images, in the order of its records.
        copies: images with the same file, which are reported elsewhere.
        findings: takes what is found.
    """
    for split, here in hashes.items():
        if not here:
            continue
        if findings.is_on("near_duplicates"):
            _check_within(split, here, _records(copies, split, split), findings)
        if split != _TRAIN and _TRAIN in hashes and findings.is_on("near_leakage"):
            _check_across(split, here, hashes[_TRAIN], _records(copies, split, _TRAIN), findings)


def _records(copies: Copies, split: str, other: str) -> set[int]:
    return {pair.record for pair in copies.get((split, other), ())}


def _check_within(
    split: str, hashes: Sequence[bytes | None], copies: Collection[int], findings: FindingList
) -> None:
    near = find_near_duplicates(hashes)
    repeats = np.flatnonzero(near.groups != np.arange(len(hashes)))
    records = [int(record) for record in repeats if record not in copies]
    examples = [
        _example(split, r, split, int(near.nearest[r]), int(near.distances[r])) for r in _some(records)
    ]
    findings.add_above(
        "near_duplicates",
        split,
        f"{len(records):,}{_at_least(near)} of {len(hashes):,} images of {split} look like another one of"
        " it; they add little, and weigh more than others: keep some",
        measured=len(records) / len(hashes),
        count=len(records),
        examples=examples,
    )


def _check_across(
    split: str,
    hashes: Sequence[bytes | None],
    trained: Sequence[bytes | None],
    copies: Collection[int],
    findings: FindingList,
) -> None:
    first = len(trained)
    near = find_near_duplicates([*trained, *hashes], [0] * first + [1] * len(hashes))
    found = np.flatnonzero(near.nearest_across[first:] >= 0)
    records = [int(record) for record in found if record not in copies]
    examples = [
        _example(split, r, _TRAIN, int(near.nearest_across[first + r]), int(near.distances_across[first + r]))
        for r in _some(records)
    ]
    findings.add_above(
        "near_leakage",
        split,
        f"{len(records):,}{_at_least(near)} of {len(hashes):,} images of {split} look like one of train;"
        " what is learnt there is measured there: keep pictures of one scene in one split",
        measured=len(records) / len(hashes),
        count=len(records),
        examples=examples,
    )


def _some(records: Sequence[int]) -> Sequence[int]:
    return records[:EXAMPLES_LISTED]


def _example(split: str, record: int, other: str, other_record: int, bits: int) -> FoundExample:
    return FoundExample(
        split=split,
        source_id="",
        record=record,
        note=f"{bits} of 256 bits differ",
        other=OtherExample(split=other, source_id="", record=other_record),
    )


def _at_least(near: NearDuplicates) -> str:
    return "" if near.complete else " or more"
