"""The spans that were validated before: their statistics, in a durable folder beside the checkpoints.

A span is compared with those before it whether or not the present run reads them. Each has a folder of its
own with a few kilobytes of statistics, so nothing of its examples is needed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence

from detection_core.artifacts.data_statistics import SPAN_STATISTICS, SampleStatistics, SpanStatistics
from detection_core.errors import DetectionError
from detection_core.storage import files

_logger = logging.getLogger(__name__)

_FAILURES = (OSError, DetectionError)


def span_names(folder: str) -> list[str]:
    """Return the names in the folder of a history; none, with a warning, where it cannot be read."""
    try:
        return [name.rstrip("/") for name in files.list_dir(folder)] if files.is_dir(folder) else []
    except _FAILURES as error:
        _logger.warning("spans | earlier ones are not compared with: %s", error)
        return []


def span_digests(folder: str, spans: Sequence[str]) -> dict[str, str]:
    """Return span to a digest of its statistics, which tells whether they have changed.

    Args:
        folder: of the history.
        spans: numbers or dates; one whose statistics cannot be read is left out, with a warning.
    """
    found = {}
    for span in spans:
        try:
            data = files.read_bytes(SPAN_STATISTICS.path(files.join(folder, span)))
        except _FAILURES as error:
            _logger.warning("spans | span %s is not compared with: %s", span, error)
            continue
        found[span] = hashlib.sha256(data).hexdigest()[:16]
    return found


def read_spans(folder: str, spans: Sequence[str]) -> dict[str, SampleStatistics]:
    """Return span to statistics, in the order of `spans`; what cannot be read is left out, with a warning.

    Args:
        folder: of the history.
        spans: numbers or dates.
    """
    found = {}
    for span in spans:
        try:
            kept = SPAN_STATISTICS.read(files.join(folder, span))
        except _FAILURES as error:
            _logger.warning("validate | the statistics of span %s are left out: %s", span, error)
            continue
        found[span] = kept.statistics
    return found


def keep_spans(folder: str, spans: Mapping[str, SampleStatistics]) -> None:
    """Keep the statistics of spans for later runs; where that is not possible, with a warning.

    Args:
        folder: of the history.
        spans: span to statistics; they take the place of what is kept of it.
    """
    for span, statistics in spans.items():
        try:
            SPAN_STATISTICS.write(files.join(folder, span), SpanStatistics(span=span, statistics=statistics))
        except _FAILURES as error:
            _logger.warning(
                "validate | span %s is not remembered, later ones are not compared with it: %s", span, error
            )
            return
