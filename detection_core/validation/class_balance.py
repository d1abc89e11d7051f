"""Checks the number of objects of each class and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from detection_core.artifacts.data_statistics import SampleStatistics
from detection_core.validation.box_statistics import counts_by_bin
from detection_core.validation.checks import FindingList

TRAIN = "train"
_NAMED = 10


def check_classes(
    splits: Mapping[str, SampleStatistics], classes: Sequence[str], findings: FindingList
) -> None:
    """Look for classes that cannot be learned or evaluated, and for splits without objects."""
    counts = {split: counts_by_bin(sample, "class") for split, sample in splits.items()}
    if TRAIN in counts:
        _check_train(counts[TRAIN], classes, findings)
    for split, sample in splits.items():
        if split != TRAIN and TRAIN in counts:
            _check_other(split, counts[split], counts[TRAIN], findings)
        if sample.images:
            findings.add_above(
                "empty_images",
                split,
                f"{sample.empty_images:,} of {sample.images:,} images of {split} have no object; check that"
                " their annotations were found",
                measured=sample.empty_images / sample.images,
                count=sample.empty_images,
            )


def _check_train(counts: Mapping[str, int], classes: Sequence[str], findings: FindingList) -> None:
    missing = [name for name in classes if not counts.get(name)]
    findings.add_above(
        "class_without_objects",
        TRAIN,
        f"{_number(missing)} of the label map without an object in {TRAIN}: {_names(missing)};"
        " annotate some, or leave them out of the label map",
        measured=len(missing),
        count=len(missing),
    )
    least = findings.threshold("rare_class")
    rare = [name for name in classes if 0 < counts.get(name, 0) < least]
    if rare:
        fewest = min(counts[name] for name in rare)
        found = ", ".join(f"{name} ({counts[name]})" for name in rare[:_NAMED])
        findings.add(
            "rare_class",
            TRAIN,
            f"{_number(rare)} with fewer than {least:g} objects in {TRAIN}: {found}{_more(rare)}; annotate"
            " more",
            measured=fewest,
            count=len(rare),
        )


def _check_other(
    split: str, counts: Mapping[str, int], trained: Mapping[str, int], findings: FindingList
) -> None:
    untrained = [name for name, count in counts.items() if count and not trained.get(name)]
    findings.add_above(
        "class_not_trained",
        split,
        f"{_number(untrained)} with objects in {split} and none in train: {_names(untrained)}; every one of"
        " these objects will be missed; divide the images into splits again",
        measured=len(untrained),
        count=len(untrained),
    )
    unmeasured = [name for name, count in trained.items() if count and not counts.get(name)]
    findings.add_above(
        "class_not_measured",
        split,
        f"{_number(unmeasured)} with objects in train and none in {split}: {_names(unmeasured)}; how well"
        " they are found is not measured there",
        measured=len(unmeasured),
        count=len(unmeasured),
    )


def _number(names: Sequence[str]) -> str:
    return f"{len(names):,} class{'' if len(names) == 1 else 'es'}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + _more(names)


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
