"""Which samples of a data set are compared with which, and with what the deployed model was trained on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.data_statistics import DataStatistics, SampleStatistics
from detection_core.validation.box_statistics import add_up
from detection_core.validation.checks import FindingList
from detection_core.validation.drift import LEAST_IMAGES, check_drift, check_vanished

_TRAIN = "train"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Before:
    """What examples are compared with that are not among them.

    Attributes:
        spans: span to statistics, of spans before those of the examples, oldest first.
        baseline: of what the deployed model was trained on; None where nothing is deployed, or by a version
            that did not keep them.
    """

    spans: Mapping[str, SampleStatistics] = dataclasses.field(default_factory=dict)
    baseline: DataStatistics | None = None


def check_differences(statistics: DataStatistics, before: Before, findings: FindingList) -> None:
    """Compare splits, folders, spans, and all with what was there before.

    Args:
        statistics: of the examples.
        before: what they are compared with.
        findings: takes what is found.
    """
    _compare_splits(statistics, findings)
    _compare_folders(statistics.folders, findings)
    _compare_spans(statistics.spans, before.spans, findings)
    _compare_with_baseline(statistics, before.baseline, findings)


def _compare_splits(statistics: DataStatistics, findings: FindingList) -> None:
    train = statistics.splits.get(_TRAIN)
    others = [split for split in statistics.splits if split != _TRAIN]
    if train is None or not others:
        findings.not_made("split_drift", "there are no two splits")
        return
    for split in others:
        names = (split, _TRAIN)
        sample = statistics.splits[split]
        check_drift("split_drift", names, sample, train, findings, comparisons=len(others))


def _compare_folders(folders: Mapping[str, SampleStatistics], findings: FindingList) -> None:
    large = {name: sample for name, sample in folders.items() if sample.images >= LEAST_IMAGES}
    if len(large) < 2:
        findings.not_made("folder_drift", f"the images lie in no two to fifty folders of {LEAST_IMAGES} each")
        return
    for folder, sample in large.items():
        others = add_up([other for name, other in large.items() if name != folder])
        names = (f"the folder {folder or '.'}", "the others")
        check_drift("folder_drift", names, sample, others, findings, comparisons=len(large))


def _compare_spans(
    spans: Mapping[str, SampleStatistics], earlier: Mapping[str, SampleStatistics], findings: FindingList
) -> None:
    if not spans:
        findings.not_made("span_drift", "the training data are not of spans")
        return
    known = {**{span: earlier[span] for span in earlier if span not in spans}, **spans}
    *before, newest = known
    if not before:
        findings.not_made("span_drift", f"span {newest} is the first that is known; see data.window")
        return
    names = (
        f"span {newest}",
        f"span {before[0]}" if len(before) == 1 else f"spans {before[0]} to {before[-1]}",
    )
    reference = add_up([known[span] for span in before])
    check_drift("span_drift", names, known[newest], reference, findings)
    check_vanished(names, known[newest], reference, findings)


def _compare_with_baseline(
    statistics: DataStatistics, baseline: DataStatistics | None, findings: FindingList
) -> None:
    reference = baseline.splits.get(_TRAIN) if baseline else None
    sample = statistics.splits.get(_TRAIN)
    if reference is None or sample is None:
        findings.not_made("baseline_drift", "there are no statistics of a deployed model's data")
        return
    names = ("train", "what the deployed model was trained on")
    check_drift("baseline_drift", names, sample, reference, findings)
    check_vanished(names, sample, reference, findings)
