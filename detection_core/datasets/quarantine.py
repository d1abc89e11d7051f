"""The list of rejected annotations, and the limit that stops a run."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from detection_core.artifacts.dataset_card import QUARANTINE, QuarantinedEntry
from detection_core.datasets.annotated_images import Rejection
from detection_core.errors import DataError
from detection_core.storage import files

Quarantine = Mapping[str, Collection[Rejection]]
"""Split name to its rejections."""


def write_quarantine(path: str, quarantine: Quarantine) -> None:
    """Write one JSON object per line: split, file, record, reason, detail."""
    entries = (
        QuarantinedEntry(split=split, **rejection._asdict())
        for split, rejections in sorted(quarantine.items())
        for rejection in rejections
    )
    files.write_text(path, QUARANTINE.format(entries))


def count_reasons(rejections: Iterable[Rejection]) -> dict[str, int]:
    """Return reason to count, the most frequent first."""
    counts = Counter(rejection.reason for rejection in rejections)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def check_limit(
    quarantine: Quarantine,
    annotated: int,
    limit: float,
    list_path: str,
    *,
    remedy: str = "mend the data or raise data.quarantine_limit",
) -> None:
    """Stop the run if more than `limit`, a fraction of the annotated images, is in quarantine.

    The list is then written to `list_path`, outside the output folder, which is not created.

    Raises:
        DataError: with counts, reasons and the path of the list.
    """
    count = sum(map(len, quarantine.values()))
    if count <= limit * annotated:
        return
    write_quarantine(list_path, quarantine)
    rejected = itertools.chain.from_iterable(quarantine.values())
    first = next(rejected)
    by_reason = count_reasons(itertools.chain([first], rejected))
    reasons = ", ".join(f"{reason} {number}" for reason, number in list(by_reason.items())[:5])
    raise DataError(
        f"expected at most {limit:.2%} of the images in quarantine, found {count} of {annotated} "
        f"({count / annotated:.2%}): {reasons}; the first is {first.file} ({first.record}): "
        f"{first.detail}. Every one is in this list; {remedy}",
        where=list_path,
    )
