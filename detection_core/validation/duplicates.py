"""Finds duplicate images by digests of their files.

Eight bytes of each digest are kept, so a million images take eight megabytes. The probability that any two
different files among ten million collide is three in a million.
"""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from detection_core.artifacts.data_findings import FoundExample, OtherExample
from detection_core.validation.checks import EXAMPLES_LISTED, FindingList

_BYTES = 8


class DigestList:
    """The digests of a split's images, in the order of its records."""

    def __init__(self) -> None:
        self._digests = array.array("Q")
        self._known = array.array("b")

    def add(self, sha256: bytes) -> None:
        """Add a digest; an empty one equals no other."""
        self._digests.append(int.from_bytes(sha256[:_BYTES], "big"))
        self._known.append(len(sha256) >= _BYTES)

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the digests, uint64 [N], and whether they are known, bool [N]."""
        return np.asarray(self._digests, np.uint64), np.asarray(self._known, bool)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """Two records with the same image.

    Attributes:
        split: of the first record.
        record: number of the first record.
        other_split: of the second record.
        other_record: number of the second record.
    """

    split: str
    record: int
    other_split: str
    other_record: int


def shared_images(split: str, digests: DigestList, other: str, others: DigestList) -> list[Pair]:
    """Return a split's images that are also in another split, each with its first occurrence there."""
    here, known = digests.values()
    there, known_there = others.values()
    numbers = np.flatnonzero(known_there)
    kept, first = np.unique(there[numbers], return_index=True)
    if not len(kept):
        return []
    at = np.minimum(np.searchsorted(kept, here), len(kept) - 1)
    found = np.flatnonzero(known & (kept[at] == here))
    return [
        Pair(split=split, record=int(n), other_split=other, other_record=int(numbers[first[at[n]]]))
        for n in found
    ]


def repeated_images(split: str, digests: DigestList) -> list[Pair]:
    """Return the images of a split that repeat an earlier one."""
    values, known = digests.values()
    numbers = np.flatnonzero(known)
    _, first, inverse = np.unique(values[numbers], return_index=True, return_inverse=True)
    return [
        Pair(split=split, record=int(n), other_split=split, other_record=int(numbers[first[group]]))
        for n, group in zip(numbers, inverse, strict=True)
        if numbers[first[group]] != n
    ]


Copies = Mapping[tuple[str, str], Sequence[Pair]]
"""(split, other split or the same) to the pairs of records with the same file."""


def check_duplicates(digests: Mapping[str, DigestList], findings: FindingList) -> Copies:
    """Look for images that are in a split twice, or in `train` and in another split.

    The ids of the findings' examples are filled in later.

    Returns:
        Every duplicate image, by pair of splits.
    """
    pairs: dict[tuple[str, str], list[Pair]] = {}
    for split, here in digests.items():
        images = len(here.values()[0])
        if images:
            found = pairs[split, split] = repeated_images(split, here)
            findings.add_above(
                "duplicates",
                split,
                f"{len(found):,} of {images:,} images of {split} repeat another one of it; remove them, as"
                " they count twice",
                measured=len(found) / images,
                count=len(found),
                examples=pair_examples(found, "the same image"),
            )
        if split != "train" and "train" in digests and images:
            found = pairs[split, "train"] = shared_images(split, here, "train", digests["train"])
            findings.add_above(
                "leakage",
                split,
                f"{len(found):,} of {images:,} images of {split} are in train too; what is learnt there is"
                " measured there: remove them from one of the two",
                measured=len(found) / images,
                count=len(found),
                examples=pair_examples(found, "the same image"),
            )
    return pairs


def pair_examples(pairs: Sequence[Pair], note: str) -> list[FoundExample]:
    """Return the first pairs as examples of a finding, each with the same note."""
    return [
        FoundExample(
            split=pair.split,
            source_id="",
            record=pair.record,
            note=note,
            other=OtherExample(split=pair.other_split, source_id="", record=pair.other_record),
        )
        for pair in pairs[:EXAMPLES_LISTED]
    ]
