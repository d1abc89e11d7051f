"""What an evaluation says in metrics.json."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence

from detection_core.evaluation.thresholds import Verdict


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalReport:
    """What metrics.json holds.

    Attributes:
        split: name of the split.
        images: how many images it has.
        metrics: name to value; where there is nothing to measure NaN, or COCO's -1.
        baseline: the same of the baseline; None where there is none.
        thresholds: every verdict.
        blessed: whether all thresholds hold.
        reasons: why, for people.
        seconds_per_image: time of one call.
    """

    split: str
    images: int
    metrics: dict[str, float]
    baseline: dict[str, float] | None
    thresholds: tuple[Verdict, ...]
    blessed: bool
    reasons: tuple[str, ...]
    seconds_per_image: float


def format_report(report: EvalReport) -> str:
    """Return metrics.json's text; what is not a number is null."""
    plain = dataclasses.asdict(report)
    for name in ("metrics", "baseline"):
        if plain[name] is not None:
            plain[name] = {k: v if math.isfinite(v) else None for k, v in plain[name].items()}
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def reasons_of(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return what speaks against a detector, or for it where nothing speaks against it."""
    against = tuple(v.text for v in verdicts if not v.passed)
    return against or tuple(v.text for v in verdicts) or ("no thresholds are set",)
