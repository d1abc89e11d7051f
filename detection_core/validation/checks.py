"""The data checks: their measures, thresholds and severities; the check of classes."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from detection_core.artifacts.data_findings import STOP, WARN, Finding, FoundExample
from detection_core.artifacts.data_statistics import SampleStatistics
from detection_core.bounded.plain_yaml import module_table
from detection_core.config.suggestions import did_you_mean
from detection_core.errors import ConfigError, shorten

OFF = "off"
PASSED = "passed"
SEVERITIES = (OFF, WARN, STOP)
EXAMPLES_LISTED = 20
"""Number of examples that a finding lists."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """A check with its defaults.

    Attributes:
        threshold: largest allowed measure.
        measures: description of the measure.
        largest: largest valid threshold; 1 for a fraction.
    """

    threshold: float
    measures: str
    largest: float = 1.0


CHECKS = {name: Check(**entry) for name, entry in module_table(__file__).items()}
"""Name to check. All of them warn by default."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limit:
    """The limit of a check: the largest allowed measure, and its severity, `off`, `warn` or `stop`."""

    threshold: float
    severity: str = WARN


Limits = Mapping[str, Limit]


def make_limits(given: Mapping[str, Mapping[str, Any]], where: str = "checks") -> dict[str, Limit]:
    """Return the limit of every check: defaults, overridden by optional `threshold` and `severity`.

    Raises:
        ConfigError: for an unknown check or field, or a value out of range.
    """
    limits = {name: Limit(threshold=check.threshold) for name, check in CHECKS.items()}
    for name, values in given.items():
        if name not in CHECKS:
            meant = did_you_mean(str(name), CHECKS, "see the list")
            raise ConfigError(
                f"expected one of {', '.join(CHECKS)}, found {shorten(name)}; {meant}", where=where
            )
        limits[name] = _limit(name, values, f"{where}.{name}")
    return limits


def _limit(name: str, values: Mapping[str, Any], where: str) -> Limit:
    unknown = values.keys() - {"threshold", "severity"}
    if unknown:
        raise ConfigError(
            f"expected threshold and severity, found {shorten(sorted(unknown)[0])}", where=where
        )
    threshold, severity = values.get("threshold", CHECKS[name].threshold), values.get("severity", WARN)
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not is_number or not 0 <= threshold <= CHECKS[name].largest:
        raise ConfigError(
            f"expected 0 to {CHECKS[name].largest:,g} ({CHECKS[name].measures}), found {shorten(threshold)}",
            where=f"{where}.threshold",
        )
    if severity not in SEVERITIES:
        raise ConfigError(
            f"expected one of {', '.join(SEVERITIES)}, found {shorten(severity)}", where=f"{where}.severity"
        )
    return Limit(threshold=float(threshold), severity=severity)


def example(split: str, record: int, note: str, **more: Any) -> FoundExample:
    """Return an example of a finding; its id is filled in by a second pass over the records."""
    return FoundExample(split=split, source_id="", record=record, note=note, **more)


class FindingList:
    """Collects the findings of all checks."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._findings: list[Finding] = []
        self._not_made: dict[str, str] = {}
        self._left_out: dict[str, str] = {}

    def is_on(self, check: str) -> bool:
        """Return whether a check is enabled."""
        return self._limits[check].severity != OFF

    def threshold(self, check: str) -> float:
        """Return the threshold of a check."""
        return self._limits[check].threshold

    def partly(self, check: str, reason: str) -> None:
        """Record what an executed check skipped."""
        if self.is_on(check):
            self._left_out[check] = reason

    def not_made(self, check: str, reason: str) -> None:
        """Record why a check was skipped."""
        self._not_made[check] = reason

    def add(
        self,
        check: str,
        about: str,
        message: str,
        *,
        measured: float,
        count: int = 0,
        examples: list[FoundExample] | None = None,
    ) -> None:
        """Add a finding, unless its check is off.

        `about` is the split, class or folder concerned, which distinguishes the check's findings. `message`
        states the fault and its remedy. Some of the examples are listed.
        """
        limit = self._limits[check]
        if limit.severity == OFF:
            return
        self._findings.append(
            Finding(
                id=f"{check}:{about}",
                check=check,
                severity=limit.severity,
                message=message,
                measured=float(measured),
                threshold=limit.threshold,
                count=count,
                examples=(examples or [])[:EXAMPLES_LISTED],
            )
        )

    def add_above(self, check: str, about: str, message: str, *, measured: float, **rest: Any) -> None:
        """Add a finding if the measure exceeds the threshold."""
        if measured > self.threshold(check):
            self.add(check, about, message, measured=measured, **rest)

    def add_classes(
        self, check: str, about: str, names: Sequence[str], what: str, advice: str = "", *, before: str = ""
    ) -> None:
        """Add a finding if it is about more classes than the threshold.

        The message has their number after `before`, and their names after `what`.
        """
        named = ", ".join(names[:_NAMED]) + _more(names)
        message = f"{before}{_number(names)} {what}: {named}{advice}"
        self.add_above(check, about, message, measured=len(names), count=len(names))

    def add_share(
        self, check: str, about: str, count: int, total: int, what: str, *, more: str = "", **rest: Any
    ) -> None:
        """Add a finding if a share exceeds the threshold; the message begins with "`count` of `total`"."""
        message = f"{count:,}{more} of {total:,} {what}"
        self.add_above(check, about, message, measured=count / total, count=count, **rest)

    def findings(self) -> list[Finding]:
        """Return the findings, those that stop a run first, then in the order of the checks."""
        order = list(CHECKS)
        return sorted(self._findings, key=lambda f: (f.severity != STOP, order.index(f.check)))

    def outcomes(self) -> dict[str, str]:
        """Return check to its outcome."""
        found = {finding.check for finding in self._findings}
        return {name: self._outcome(name, limit, name in found) for name, limit in self._limits.items()}

    def _outcome(self, check: str, limit: Limit, found: bool) -> str:
        if limit.severity == OFF or found:
            return limit.severity
        return self._not_made.get(check) or self._left_out.get(check) or PASSED


TRAIN = "train"
_NAMED = 10


def check_classes(
    splits: Mapping[str, SampleStatistics], classes: Sequence[str], findings: FindingList
) -> None:
    """Look for classes that cannot be learned or evaluated, and for splits without objects."""
    counts = {split: sample.counts_by_bin("class") for split, sample in splits.items()}
    if TRAIN in counts:
        _check_train(counts[TRAIN], classes, findings)
    for split, sample in splits.items():
        if split != TRAIN and TRAIN in counts:
            _check_other(split, counts[split], counts[TRAIN], findings)
        if sample.images:
            what = f"images of {split} have no object; check that their annotations were found"
            findings.add_share("empty_images", split, sample.empty_images, sample.images, what)


def _check_train(counts: Mapping[str, int], classes: Sequence[str], findings: FindingList) -> None:
    missing = [name for name in classes if not counts.get(name)]
    what = f"of the label map without an object in {TRAIN}"
    advice = "; annotate some, or leave them out of the label map"
    findings.add_classes("class_without_objects", TRAIN, missing, what, advice)
    least = findings.threshold("rare_class")
    rare = [name for name in classes if 0 < counts.get(name, 0) < least]
    if rare:
        fewest = min(counts[name] for name in rare)
        found = ", ".join(f"{name} ({counts[name]})" for name in rare[:_NAMED])
        findings.add(
            "rare_class",
            TRAIN,
            f"{_number(rare)} with fewer than {least:g} objects in {TRAIN}: {found}{_more(rare)};"
            " annotate more",
            measured=fewest,
            count=len(rare),
        )


def _check_other(
    split: str, counts: Mapping[str, int], trained: Mapping[str, int], findings: FindingList
) -> None:
    untrained = [name for name, count in counts.items() if count and not trained.get(name)]
    what = f"with objects in {split} and none in train"
    advice = "; every one of these objects will be missed; divide the images into splits again"
    findings.add_classes("class_not_trained", split, untrained, what, advice)
    unmeasured = [name for name, count in trained.items() if count and not counts.get(name)]
    what = f"with objects in train and none in {split}"
    advice = "; how well they are found is not measured there"
    findings.add_classes("class_not_measured", split, unmeasured, what, advice)


def _number(classes: Sequence[str]) -> str:
    return f"{len(classes):,} class{'' if len(classes) == 1 else 'es'}"


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
