"""Findings of checks, and a runner for a table of checks."""

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from detection_core.errors import DetectionError

Subject = TypeVar("Subject")


class State(enum.StrEnum):
    """Severity of a finding.

    Attributes:
        OK: as it should be.
        NOTE: works; additional information.
        UNKNOWN: cannot be checked from here.
        PROBLEM: something will not work until it is fixed.
    """

    OK = "ok"
    NOTE = "note"
    UNKNOWN = "unknown"
    PROBLEM = "problem"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the doctor's report; only `ok` may have an empty remedy."""

    state: State
    found: str
    remedy: str = ""
    check: str = ""

    def __post_init__(self) -> None:
        if not self.remedy and self.state is not State.OK:
            raise ValueError(f"expected a remedy for {self.found!r}, found none")


ok = functools.partial(Finding, State.OK)
note = functools.partial(Finding, State.NOTE)
unknown = functools.partial(Finding, State.UNKNOWN)
problem = functools.partial(Finding, State.PROBLEM)


@dataclasses.dataclass(frozen=True)
class Check(Generic[Subject]):
    """A check of a table; if an `essential` one fails to run, later checks are skipped."""

    name: str
    look: Callable[[Subject], Iterable[Finding]]
    essential: bool = False


def examine(checks: Sequence[Check[Subject]], subject: Subject) -> list[Finding]:
    """Run a table of checks; a check that fails to run becomes a finding, and the others still run."""
    found: list[Finding] = []
    for check in checks:
        error = None
        try:
            findings = list(check.look(subject))
        except DetectionError as e:
            error = e
            findings = [problem(str(e), "correct the problem that the message names, and run doctor again")]
        found += [dataclasses.replace(finding, check=check.name) for finding in findings]
        if error and check.essential:
            break
    return found
