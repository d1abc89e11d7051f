"""Statistics of the training images of one span, kept when the span is long gone: span_statistics.json."""

from __future__ import annotations

import dataclasses

from detection_core.artifacts.data_statistics import SampleStatistics
from detection_core.artifacts.json_file import JsonFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanStatistics:
    """What span_statistics.json holds.

    Attributes:
        span: number or date.
        statistics: of its training images.
    """

    span: str
    statistics: SampleStatistics


SPAN_STATISTICS = JsonFile(
    name="span_statistics.json",
    content=SpanStatistics,
    writer="DataValidator",
    remedy="remove it: the span is not compared with then",
    indent=None,
)
