"""Report of a restored checkpoint: each variable, and a short summary."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Iterator, Sequence

OPTIMIZER_SLOT = "/.OPTIMIZER_SLOT/"
"""Separates a variable's path from its optimizer slot in keys of object-based checkpoints."""
AVERAGED = "/ExponentialMovingAverage"
"""Suffix of moving averages in name-based checkpoints."""
_IN_SUMMARY, _PARTS_IN_SUMMARY, _UNUSED_IN_TABLE = 10, 20, 1000


def is_averaged(key: str) -> bool:
    """Return whether a key is that of a moving average."""
    return key.endswith(AVERAGED) or OPTIMIZER_SLOT in key


class Outcome(enum.Enum):
    """The outcome for a variable of the detector."""

    RESTORED = "restored"
    SKIPPED_SHAPE = "skipped: another shape"
    MISSING = "missing in the checkpoint"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoredVariable:
    """A row of the report.

    Attributes:
        name: of the detector's variable.
        key: its actual or expected key in the checkpoint.
        outcome: of the restore.
        shape: of the detector's variable.
        found_shape: in the checkpoint; empty where it is missing.
        candidates: keys that could each be the missing variable; none was used.
    """

    name: str
    key: str
    outcome: Outcome
    shape: tuple[int, ...]
    found_shape: tuple[int, ...] = ()
    candidates: tuple[str, ...] = ()

    @property
    def averaged(self) -> bool:
        """Whether a moving average was restored, not the trained value."""
        return self.outcome is Outcome.RESTORED and is_averaged(self.key)

    def line(self) -> str:
        """Return the row as text."""
        if self.outcome is Outcome.RESTORED:
            value = "moving average" if self.averaged else "plain value"
            return f"{self.outcome.value}, {value}: {self.name} {list(self.shape)} ({self.key})"
        found = f", found {list(self.found_shape)}" if self.outcome is Outcome.SKIPPED_SHAPE else ""
        several = f"; it could be any of {', '.join(self.candidates)}" if self.candidates else ""
        return f"{self.outcome.value}: {self.name} {list(self.shape)}{found} ({self.key}{several})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """The report of restoring a detector from a checkpoint.

    Attributes:
        prefix: path of the checkpoint.
        kind: what was restored: "classification", "detection" or "full".
        variables: the detector's variables of that kind.
        unused: keys of model variables in the checkpoint that the detector does not use.
    """

    prefix: str
    kind: str
    variables: tuple[RestoredVariable, ...]
    unused: tuple[str, ...]

    def count(self, outcome: Outcome) -> int:
        """Return the number of variables with an outcome."""
        return sum(row.outcome is outcome for row in self.variables)

    def counts(self) -> dict[str, int]:
        """The numbers of restored, skipped and missing variables, and of the checkpoint's unused ones."""
        counts = {outcome.name.lower(): self.count(outcome) for outcome in Outcome}
        return counts | {"unused": len(self.unused)}

    @property
    def averaged(self) -> int:
        """Number of variables restored from their moving average."""
        return sum(row.averaged for row in self.variables)

    def summary(self) -> str:
        """The counts, those of each part of the checkpoint, and the first variables not restored.

        The length is bounded for every detector and checkpoint.
        """
        left = [row.line() for row in self.variables if row.outcome is not Outcome.RESTORED]
        lines = [
            self._counts(),
            *_first(list(self._parts()), _PARTS_IN_SUMMARY, "parts"),
            *_first(left, _IN_SUMMARY, "variables that were not restored"),
            *_first([f"unused: {key}" for key in self.unused], _IN_SUMMARY, "unused"),
        ]
        return "\n".join(lines)

    def table(self) -> str:
        """The counts, then one line for each variable: not restored, restored, unused.

        At most 1,000 unused variables are named.
        """
        left = [row for row in self.variables if row.outcome is not Outcome.RESTORED]
        restored = [row for row in self.variables if row.outcome is Outcome.RESTORED]
        lines = [self._counts(), *(f"  {row.line()}" for row in (*left, *restored))]
        unused = [f"unused: {key}" for key in self.unused]
        return "\n".join([*lines, *_first(unused, _UNUSED_IN_TABLE, "unused")])

    def _counts(self) -> str:
        counts = ", ".join(f"{self.count(outcome)} {outcome.value}" for outcome in Outcome)
        values = f"{self.averaged} moving averages and {self.count(Outcome.RESTORED) - self.averaged} plain"
        return (
            f"{self.kind} checkpoint {self.prefix}: {counts}, {len(self.unused)} of its variables unused;"
            f" what was restored are {values} values"
        )

    def _parts(self) -> Iterator[str]:
        """Describe the outcome for each part of the checkpoint, with the key of its first variable."""
        parts: dict[str, list[RestoredVariable]] = collections.defaultdict(list)
        common = _common_scopes([row.key for row in self.variables])
        for row in self.variables:
            parts["/".join(row.key.split("/")[: common + 1])].append(row)
        for part, rows in parts.items():
            restored = [row for row in rows if row.outcome is Outcome.RESTORED]
            averaged = sum(row.averaged for row in rows)
            first = f", such as {restored[0].key}" if restored else ""
            yield (
                f"{part}: {len(restored)} of {len(rows)} restored ({averaged} moving averages,"
                f" {len(restored) - averaged} plain){first}"
            )


def _common_scopes(keys: Sequence[str]) -> int:
    """Return the number of leading scopes that all keys share."""
    scopes = [key.split("/")[:-1] for key in keys]
    common = 0
    while scopes and all(len(each) > common and each[common] == scopes[0][common] for each in scopes):
        common += 1
    return common


def _first(lines: Sequence[str], count: int, what: str) -> list[str]:
    more = [f"  and {len(lines) - count:,} more {what}"] if len(lines) > count else []
    return [*(f"  {line}" for line in lines[:count]), *more]
