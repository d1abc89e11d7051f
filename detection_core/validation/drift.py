"""Checks for drift between samples, for example between a span and earlier ones.

A histogram has drifted if both hold:

- The difference is significant: its p-value, adjusted for all comparisons, is below `SIGNIFICANCE`. This
  prevents false alarms of small samples.
- The Jensen-Shannon divergence is above the check's threshold. This prevents false alarms of large samples,
  where every difference is significant.

`benchmarks/drift_false_alarms.py` measures the rate of false alarms.
"""

import dataclasses
import math
from collections.abc import Mapping

from detection_core.artifacts.data_statistics import DataStatistics, Histogram, SampleStatistics
from detection_core.validation.box_statistics import Comparison, add_up, compare, holm
from detection_core.validation.checks import TRAIN, FindingList

SIGNIFICANCE = 0.01
"""Maximum probability of a false alarm in one comparison of all histograms."""
LEAST_IMAGES = 30
"""Minimum number of images of each sample."""

_CLASS = "class"
_IN_IMAGES = "images with "


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drift:
    """A histogram that differs.

    Attributes:
        name: of the histogram; `images with CLASS` for the number of images with a class.
        comparison: of the two histograms.
        p_value: adjusted for all comparisons.
    """

    name: str
    comparison: Comparison
    p_value: float


def find_drift(
    sample: SampleStatistics,
    reference: SampleStatistics,
    *,
    divergence: float,
    significance: float = SIGNIFICANCE,
) -> list[Drift]:
    """Return the histograms in which two samples differ, the most different first.

    Their Jensen-Shannon divergence is above `divergence` bits, their adjusted p-value below `significance`.
    """
    compared = {
        name: found
        for name, (here, there) in _pairs(sample, reference).items()
        if (found := compare(here, there)) is not None
    }
    adjusted = holm([found.p_value for found in compared.values()])
    drifted = [
        Drift(name=name, comparison=found, p_value=p_value)
        for (name, found), p_value in zip(compared.items(), adjusted, strict=True)
        if p_value < significance and found.divergence > divergence
    ]
    return sorted(drifted, key=lambda drift: -drift.comparison.divergence)


def _pairs(sample: SampleStatistics, reference: SampleStatistics) -> dict[str, tuple[Histogram, Histogram]]:
    pairs = {
        name: (here, reference.histograms[name])
        for name, here in sample.histograms.items()
        if name in reference.histograms
    }
    # Compare classes by the images that contain them, because images are independent of each other.
    if _CLASS in pairs:
        here, there = pairs[_CLASS]
        for label in dict.fromkeys((*here.bins, *there.bins)):
            pairs[_IN_IMAGES + label] = (
                _presence(here, label, sample.images),
                _presence(there, label, reference.images),
            )
    return pairs


def _presence(histogram: Histogram, label: str, images: int) -> Histogram:
    """Return a histogram of images with and without a class, each image counted as one object."""
    present = histogram.images[histogram.bins.index(label)] if label in histogram.bins else 0
    counts = [present, images - present]
    return Histogram(
        bins=["with", "without"],
        counts=counts,
        squares=counts,
        products=counts,
        images=counts,
        total_squares=images,
    )


def check_drift(
    check: str,
    names: tuple[str, str],
    sample: SampleStatistics,
    reference: SampleStatistics,
    findings: FindingList,
    *,
    comparisons: int = 1,
) -> None:
    """Compare two samples, the newer one first, and add a finding for each difference.

    `comparisons` is the number of comparisons that share `SIGNIFICANCE`.
    """
    here, there = names
    if min(sample.images, reference.images) < LEAST_IMAGES:
        fewest = min(sample.images, reference.images)
        findings.not_made(check, f"{fewest:,} images in {here} or {there}, {LEAST_IMAGES} are needed")
        return
    drifted = find_drift(
        sample, reference, divergence=findings.threshold(check), significance=SIGNIFICANCE / comparisons
    )
    if not drifted:
        return
    worst = drifted[0].comparison.divergence
    # Splits have no order in time; all other samples are newer than their reference.
    when = (f"in {there}", f"in {here}") if check == "split_drift" else ("before", "now")
    findings.add(
        check,
        f"{here} against {there}",
        f"{here} differs from {there} in {'; '.join(_text(drift, when) for drift in drifted[:5])}"
        + (f" and {len(drifted) - 5} more" if len(drifted) > 5 else "")
        + "; check whether the detector will meet these data",
        measured=worst,
        count=len(drifted),
    )


def _text(drift: Drift, when: tuple[str, str]) -> str:
    then, now = when
    found = drift.comparison
    chance = f"{max(drift.p_value, 1e-12):.1g}"
    if drift.name.startswith(_IN_IMAGES):
        before, after = (
            (found.before, found.after)
            if found.most_changed == "with"
            else (1 - found.before, 1 - found.after)
        )
        return f"{drift.name} ({before:.1%} {then}, {after:.1%} {now}, by chance with p = {chance})"
    return (
        f"{drift.name} (above all {found.most_changed}: {found.before:.1%} {then}, {found.after:.1%} {now};"
        f" divergence {found.divergence:.3f}, by chance with p = {chance})"
    )


def check_vanished(
    names: tuple[str, str], sample: SampleStatistics, reference: SampleStatistics, findings: FindingList
) -> None:
    """Look for classes that the sample lost, and for classes that are new in it.

    A class has vanished if Fisher's exact test gives a p-value below `SIGNIFICANCE` over all classes.
    """
    here, there = names
    now, before = sample.counts_by_bin(_CLASS), reference.counts_by_bin(_CLASS)
    new = [label for label, count in now.items() if count and not before.get(label)]
    about = f"{here} against {there}"
    findings.add_classes("new_class", about, new, f"that {there} had not", before=f"{here} has ")
    histogram = reference.histograms.get(_CLASS)
    if histogram is None or not reference.images:
        return
    had = dict(zip(histogram.bins, histogram.images, strict=True))
    missing = [label for label, count in before.items() if count and not now.get(label)]
    known = max(1, sum(count > 0 for count in before.values()))
    vanished = [
        label
        for label in missing
        if _chance_of_none(had[label], reference.images, sample.images) < SIGNIFICANCE / known
    ]
    what, advice = f"that {there} had", "; check that annotations and label map are complete"
    lost = f"{here} has no object of "
    findings.add_classes("vanished_class", about, vanished, what, advice, before=lost)


def _chance_of_none(images_with: int, reference: int, sample: int) -> float:
    """Return the probability that all images with a class fall into the reference, none into the sample."""
    logs = (
        math.lgamma(reference + 1)
        - math.lgamma(reference - images_with + 1)
        - math.lgamma(reference + sample + 1)
        + math.lgamma(reference + sample - images_with + 1)
    )
    return math.exp(logs)


def check_differences(
    statistics: DataStatistics,
    earlier_spans: Mapping[str, SampleStatistics],
    baseline: DataStatistics | None,
    findings: FindingList,
) -> None:
    """Compare splits, folders and spans with each other, and all examples with earlier data.

    Earlier spans are those before the examples' spans, oldest first. The baseline is of the deployed model's
    training data; None if there is no model or no statistics.
    """
    _compare_splits(statistics, findings)
    _compare_folders(statistics.folders, findings)
    _compare_spans(statistics.spans, earlier_spans, findings)
    _compare_with_baseline(statistics, baseline, findings)


def _compare_splits(statistics: DataStatistics, findings: FindingList) -> None:
    train = statistics.splits.get(TRAIN)
    others = [split for split in statistics.splits if split != TRAIN]
    if train is None or not others:
        findings.not_made("split_drift", "there are no two splits")
        return
    for split in others:
        names = (split, TRAIN)
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
    reference = baseline.splits.get(TRAIN) if baseline else None
    sample = statistics.splits.get(TRAIN)
    if reference is None or sample is None:
        findings.not_made("baseline_drift", "there are no statistics of a deployed model's data")
        return
    names = ("train", "what the deployed model was trained on")
    check_drift("baseline_drift", names, sample, reference, findings)
    check_vanished(names, sample, reference, findings)
