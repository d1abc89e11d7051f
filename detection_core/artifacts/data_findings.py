"""The findings of DataValidator: findings.json, what is wrong or strange about examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT

WARN, STOP = "warn", "stop"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OtherExample:
    """The example that a found one repeats.

    Attributes:
        split: that it is in.
        source_id: id of the image.
        record: its number in the split.
    """

    split: str
    source_id: str
    record: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundExample:
    """An example that a finding is about.

    Attributes:
        split: that it is in.
        source_id: id of the image.
        record: its number in the split, from 0, in the order of the files.
        note: what is wrong with it.
        other: the example that it repeats or contradicts; None where there is none.
        box: ymin, xmin, ymax, xmax of the box that is meant, normalised; None where all of the image is.
        picture: file in the folder `pictures` beside this one; "" where none was drawn.
    """

    split: str
    source_id: str
    record: int
    note: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)
    other: OtherExample | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    box: list[float] | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    picture: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that a check found.

    Attributes:
        id: check, and split, class or folder that it is about; unique in the file.
        check: a key of `detection_core.validation.checks.CHECKS`.
        severity: `warn` or `stop`.
        message: what was found and what to do, for people.
        measured: the value that was compared.
        threshold: what it was compared with.
        count: of examples, boxes or classes that it is about.
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
    """What findings.json holds.

    Attributes:
        findings: those that stop the run first.
        checks: check to how it went: `passed`, `warn`, `stop`, `off`, or why it could not be made.
        images: split to examples that were looked at.
        decoded: images whose pixels were decoded.
    """

    findings: list[Finding]
    checks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    images: Mapping[str, int] = dataclasses.field(default_factory=dict)
    decoded: int = 0

    @property
    def reasons(self) -> list[str]:
        """What stops the run."""
        return [finding.message for finding in self.findings if finding.severity == STOP]

    @property
    def warnings(self) -> list[str]:
        """What does not."""
        return [finding.message for finding in self.findings if finding.severity != STOP]


FINDINGS = JsonFile(
    name="findings.json", content=DataFindings, writer="DataValidator", remedy="validate the examples again"
)
