"""The findings of DataValidator (findings.json): problems and anomalies in the examples."""

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT

WARN, STOP = "warn", "stop"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OtherExample:
    """The example that another one duplicates.

    Attributes:
        split: its split.
        source_id: id of the image.
        record: its number in the split.
    """

    split: str
    source_id: str
    record: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundExample:
    """An example that a finding refers to.

    Attributes:
        split: its split.
        source_id: id of the image.
        record: its number in the split, from 0, in the order of the files.
        note: what is wrong with it.
        other: the example that it duplicates or contradicts; None if there is none.
        box: ymin, xmin, ymax, xmax of the box in question, normalised; None for the whole image.
        detected: box of a detection that contradicts it, likewise; None if there is none.
        picture: file in the folder `pictures` beside this one; "" if none was drawn.
    """

    split: str
    source_id: str
    record: int
    note: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)
    other: OtherExample | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    box: list[float] | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    detected: list[float] | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    picture: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One result of a check.

    Attributes:
        id: check, followed by the split, class or folder; unique in the file.
        check: a key of `detection_core.validation.checks.CHECKS`.
        severity: `warn` or `stop`.
        message: readable text: what was found and what to do.
        measured: the value that was compared.
        threshold: the limit of `measured`.
        count: number of examples, boxes or classes concerned.
        examples: some of them.
    """

    id: str
    check: str
    severity: str
    message: str
    measured: float
    threshold: float
    count: int = 0
    examples: list[FoundExample] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFindings:
    """The content of findings.json.

    Attributes:
        findings: findings that stop the run come first.
        checks: check to outcome: `passed`, `warn`, `stop`, `off`, or why it could not run.
        images: split to number of examples checked.
        decoded: number of images decoded.
    """

    findings: list[Finding]
    checks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    images: Mapping[str, int] = dataclasses.field(default_factory=dict)
    decoded: int = 0

    @property
    def reasons(self) -> list[str]:
        """Messages of the findings that stop the run."""
        return [finding.message for finding in self.findings if finding.severity == STOP]

    @property
    def warnings(self) -> list[str]:
        """Messages of the other findings."""
        return [finding.message for finding in self.findings if finding.severity != STOP]


FINDINGS = JsonFile(
    name="findings.json", content=DataFindings, writer="DataValidator", remedy="validate the examples again"
)
