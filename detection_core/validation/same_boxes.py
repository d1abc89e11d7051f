"""Checks for duplicate boxes in an image, and for duplicate images with different annotations."""

from __future__ import annotations

import array
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from detection_core.artifacts.data_findings import FoundExample
from detection_core.validation.checks import EXAMPLES_LISTED, FindingList
from detection_core.validation.duplicates import Pair, pair_examples
from detection_core.validation.labelled_images import LabelledImage, stored_box

SAME_BOX = 0.95
"""Minimum intersection over union of duplicate boxes."""
_MOST_BOXES = 2_000
"""Maximum number of boxes per image that are compared with each other; they take 32 MB."""
_DIGITS = 3
_BYTES = 8


def same_boxes(boxes: np.ndarray, overlap: float = SAME_BOX) -> np.ndarray:
    """Return which boxes are duplicates: their intersection over union reaches `overlap`.

    Boxes are float [G, 4], ymin, xmin, ymax, xmax.

    Returns:
        bool [G, G], False on the diagonal.
    """
    boxes = np.where(np.isfinite(boxes).all(axis=1, keepdims=True), boxes, 0.0)
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = np.clip(high - low, 0.0, None).prod(axis=-1)
    areas = np.clip(boxes[:, 2:] - boxes[:, :2], 0.0, None).prod(axis=-1)
    union = areas[:, None] + areas[None, :] - common
    same = common >= overlap * np.maximum(union, 1e-12)
    np.fill_diagonal(same, False)
    return same


class AnnotationChecker:
    """Compares the boxes of each image of a split."""

    def __init__(self) -> None:
        self._images = 0
        self._contradicting: list[tuple[int, int, int, list[float]]] = []
        self._repeating: list[tuple[int, int, list[float]]] = []
        self._counts = {"contradictions": 0, "repeated_boxes": 0}
        self._objects = array.array("Q")

    def add(self, image: LabelledImage) -> None:
        """Compare the boxes of an image, without crowd regions."""
        self._images += 1
        self._objects.append(_objects_digest(image))
        kept = np.flatnonzero(~image.is_crowd)[:_MOST_BOXES]
        if len(kept) < 2:
            return
        same = same_boxes(image.boxes[kept])
        if not same.any():
            return
        classes = image.classes[kept]
        alike = classes[:, None] == classes[None, :]
        different = np.argwhere(same & ~alike)
        if len(different):
            self._counts["contradictions"] += 1
            first, second = different[0]
            if len(self._contradicting) < EXAMPLES_LISTED:
                self._contradicting.append(
                    (
                        image.record,
                        int(classes[first]),
                        int(classes[second]),
                        stored_box(image.boxes[kept][first]),
                    )
                )
        again = np.triu(same & alike).any(axis=0)
        repeated = int(again.sum())
        if repeated:
            self._counts["repeated_boxes"] += 1
            if len(self._repeating) < EXAMPLES_LISTED:
                self._repeating.append((image.record, repeated, stored_box(image.boxes[kept][again][0])))

    def report(self, split: str, classes: Sequence[str], findings: FindingList) -> None:
        """Add the findings."""
        if not self._images:
            return
        examples = [
            FoundExample(
                split=split,
                source_id="",
                record=r,
                note=f"{_name(classes, a)} and {_name(classes, b)}",
                box=box,
            )
            for r, a, b, box in self._contradicting
        ]
        self._add(
            "contradictions",
            split,
            "have the same box with two classes; decide for one",
            examples,
            findings,
        )
        examples = [
            FoundExample(
                split=split, source_id="", record=r, note=f"{n} box{'es' if n > 1 else ''} again", box=box
            )
            for r, n, box in self._repeating
        ]
        self._add(
            "repeated_boxes",
            split,
            "have the same box of one class twice; remove one",
            examples,
            findings,
        )

    def _add(
        self, check: str, split: str, what: str, examples: list[FoundExample], findings: FindingList
    ) -> None:
        count = self._counts[check]
        findings.add_above(
            check,
            split,
            f"{count:,} of {self._images:,} images of {split} {what}",
            measured=count / self._images,
            count=count,
            examples=examples,
        )

    def objects_digest(self, record: int) -> int:
        """Return a hash that is equal for images with the same objects."""
        return self._objects[record]


def _name(classes: Sequence[str], label: int) -> str:
    return classes[label] if label >= 0 else "a class of no label map"


def _objects_digest(image: LabelledImage) -> int:
    """Hash classes and boxes, rounded to a thousandth of the image, independent of their order."""
    rows = sorted(
        (*row, int(label), bool(crowd))
        for row, label, crowd in zip(
            np.round(image.boxes, _DIGITS).tolist(), image.classes, image.is_crowd, strict=True
        )
    )
    return int.from_bytes(hashlib.blake2b(repr(rows).encode(), digest_size=_BYTES).digest(), "big")


def check_copies(
    pairs: Sequence[Pair], checkers: Mapping[str, AnnotationChecker], findings: FindingList
) -> None:
    """Find records of the same image with different objects."""
    if not pairs:
        return
    found = [
        pair
        for pair in pairs
        if checkers[pair.split].objects_digest(pair.record)
        != checkers[pair.other_split].objects_digest(pair.other_record)
    ]
    findings.add_above(
        "contradicting_copies",
        "all",
        f"{len(found):,} of {len(pairs):,} copies of an image are annotated differently; keep the right one",
        measured=len(found) / len(pairs),
        count=len(found),
        examples=pair_examples(found, "the same image, annotated differently"),
    )
