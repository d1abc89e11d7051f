"""Statistics of earlier spans, in a durable folder next to the checkpoints.

A span is compared with all earlier ones, whether or not this run reads them. Each has a separate folder
with a few kilobytes of statistics, so its examples are not needed.
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
    """List the folder of a history; warn and return nothing if it cannot be read."""
    try:
        return [name.rstrip("/") for name in files.list_dir(folder)] if files.is_dir(folder) else []
    except _FAILURES as error:
        _logger.warning("spans | earlier ones are not compared with: %s", error)
        return []


def span_digests(folder: str, spans: Sequence[str]) -> dict[str, str]:
    """Return span to a digest of its statistics; skip unreadable ones with a warning."""
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
    """Return span to statistics, in the order of `spans`; skip unreadable ones with a warning."""
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
    """Store the statistics of spans for later runs, overwriting existing ones; warn if that fails."""
    for span, statistics in spans.items():
        try:
            SPAN_STATISTICS.write(files.join(folder, span), SpanStatistics(span=span, statistics=statistics))
        except _FAILURES as error:
            _logger.warning(
                "validate | span %s is not remembered, later ones are not compared with it: %s", span, error
            )
            return
