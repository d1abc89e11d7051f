"""Finds duplicate images, their differing annotations, and duplicate boxes in an image.

Images are compared by digests of their files. Eight bytes of each digest are kept, so a million images take
eight megabytes. The probability that any two different files among ten million collide is three in a million.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from detection_core.artifacts.data_findings import FoundExample, OtherExample
from detection_core.evaluation.results import iou_px
from detection_core.validation.checks import EXAMPLES_LISTED, TRAIN, FindingList, example
from detection_core.validation.labelled_images import LabelledImage, stored_box

_BYTES = 8


Digests = Sequence[int]
"""A digest of each image of a split, in the order of its records."""


def short_digest(sha256: bytes) -> int:
    """Return the first bytes of a digest as a number; 0 for an empty one, which equals no other."""
    return int.from_bytes(sha256[:_BYTES], "big") if len(sha256) >= _BYTES else 0


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


def shared_images(split: str, digests: Digests, other: str, others: Digests) -> list[Pair]:
    """Return a split's images that are also in another split, or earlier in the same one.

    Each is paired with its first occurrence there.
    """
    here, there = np.asarray(digests, np.uint64), np.asarray(others, np.uint64)
    numbers = np.flatnonzero(there)
    kept, first = np.unique(there[numbers], return_index=True)
    if not len(kept):
        return []
    at = np.minimum(np.searchsorted(kept, here), len(kept) - 1)
    found = np.flatnonzero(kept[at] == here)
    return [
        Pair(split=split, record=record, other_split=other, other_record=earliest)
        for record, earliest in zip(found.tolist(), numbers[first[at[found]]].tolist(), strict=True)
        if (split, record) != (other, earliest)
    ]


Copies = Mapping[tuple[str, str], Sequence[Pair]]
"""(split, other split or the same) to the pairs of records with the same file."""


def check_duplicates(digests: Mapping[str, Digests], findings: FindingList) -> Copies:
    """Return the images that are in a split twice, or in `train` and in another split, by pair of splits.

    The ids of the findings' examples are filled in later.
    """
    pairs: dict[tuple[str, str], list[Pair]] = {}
    for split, here in digests.items():
        images, others = len(here), {"duplicates": split}
        if split != TRAIN and TRAIN in digests:
            others["leakage"] = TRAIN
        for check, other in others.items() if images else ():
            found = pairs[split, other] = shared_images(split, here, other, digests[other])
            what = f"images of {split} {_REMEDIES[check]}"
            examples = [pair_example(pair, "the same image") for pair in found[:EXAMPLES_LISTED]]
            findings.add_share(check, split, len(found), images, what, examples=examples)
    return pairs


_REMEDIES = {
    "duplicates": "repeat another one of it; remove them, as they count twice",
    "leakage": "are in train, too, so metrics will be too optimistic: remove them from one of the two splits",
}
"""Check to what is wrong with its images, and what to do."""


def pair_example(pair: Pair, note: str) -> FoundExample:
    """Return a pair as an example of a finding."""
    other = OtherExample(split=pair.other_split, source_id="", record=pair.other_record)
    return example(pair.split, pair.record, note, other=other)


SAME_BOX = 0.95
"""Minimum intersection over union of duplicate boxes."""
_MOST_BOXES = 2_000
"""Maximum number of boxes per image that are compared with each other; they take 32 MB."""
_DIGITS = 3


def same_boxes(boxes: np.ndarray, overlap: float = SAME_BOX) -> np.ndarray:
    """Return which boxes are duplicates: their intersection over union reaches `overlap`.

    Boxes are float [G, 4], ymin, xmin, ymax, xmax; the result is bool [G, G], False on the diagonal.
    """
    boxes = np.where(np.isfinite(boxes).all(axis=1, keepdims=True), boxes, 0.0)
    same = iou_px(boxes, boxes, np.zeros(len(boxes), bool)) >= overlap
    np.fill_diagonal(same, False)
    return same


_REPEATS = {
    "contradictions": "with two classes; decide for one",
    "repeated_boxes": "of one class twice; remove one",
}
"""Check to what boxes have in common, and what to do."""


class AnnotationChecker:
    """Compares the boxes of each image of a split."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = classes
        self.images = 0
        self._counts = dict.fromkeys(_REPEATS, 0)
        self._listed: dict[str, list[tuple[int, str, list[float]]]] = {check: [] for check in _REPEATS}

    def merge(self, other: "AnnotationChecker") -> None:
        """Add what another one found in other records."""
        self.images += other.images
        for check, listed in self._listed.items():
            self._counts[check] += other._counts[check]
            self._listed[check] = sorted([*listed, *other._listed[check]])[:EXAMPLES_LISTED]

    def add(self, image: LabelledImage) -> None:
        """Compare the boxes of an image, without crowd regions."""
        self.images += 1
        kept = np.flatnonzero(~image.is_crowd)[:_MOST_BOXES]
        if len(kept) < 2:
            return
        boxes, classes = image.boxes[kept], image.classes[kept]
        same = same_boxes(boxes)
        if not same.any():
            return
        alike = classes[:, None] == classes[None, :]
        different = np.argwhere(same & ~alike)
        if len(different):
            first, second = different[0]
            names = f"{self._name(classes[first])} and {self._name(classes[second])}"
            self._note("contradictions", image.record, names, boxes[first])
        again = np.triu(same & alike).any(axis=0)
        if again.any():
            count = int(again.sum())
            note = f"{count} box{'es' if count > 1 else ''} again"
            self._note("repeated_boxes", image.record, note, boxes[again][0])

    def _name(self, label: int) -> str:
        return self._classes[label] if label >= 0 else "a class of no label map"

    def _note(self, check: str, record: int, note: str, box: np.ndarray) -> None:
        self._counts[check] += 1
        if len(self._listed[check]) < EXAMPLES_LISTED:
            self._listed[check].append((record, note, stored_box(box)))

    def report(self, split: str, findings: FindingList) -> None:
        """Add the findings."""
        for check, count in self._counts.items() if self.images else ():
            examples = [example(split, record, note, box=box) for record, note, box in self._listed[check]]
            what = f"images of {split} have the same box {_REPEATS[check]}"
            findings.add_share(check, split, count, self.images, what, examples=examples)


def objects_digest(image: LabelledImage) -> int:
    """Hash classes and boxes, rounded to a thousandth of the image, independent of their order."""
    rows = sorted(
        (*row, int(label), bool(crowd))
        for row, label, crowd in zip(
            np.round(image.boxes, _DIGITS).tolist(), image.classes, image.is_crowd, strict=True
        )
    )
    return int.from_bytes(hashlib.blake2b(repr(rows).encode(), digest_size=_BYTES).digest(), "big")


def check_copies(pairs: Sequence[Pair], objects: Mapping[str, Digests], findings: FindingList) -> None:
    """Find records of the same image with different objects; `objects_digest` of each image is given."""
    if not pairs:
        return
    found = [
        pair
        for pair in pairs
        if objects[pair.split][pair.record] != objects[pair.other_split][pair.other_record]
    ]
    what = "copies of an image are annotated differently; keep the right one"
    note = "the same image, annotated differently"
    examples = [pair_example(pair, note) for pair in found[:EXAMPLES_LISTED]]
    findings.add_share("contradicting_copies", "all", len(found), len(pairs), what, examples=examples)
