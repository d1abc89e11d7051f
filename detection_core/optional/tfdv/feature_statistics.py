"""Statistics of the columns of examples, as TFDV's TensorFlow Metadata protos.

TensorFlow Data Validation has wheels for x86-64 only, and needs a package without wheels. So this module
computes the statistics, in one pass and bounded memory. TFDV's tools read and compare them. Counters of
parts of the examples can be merged in any order.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from tensorflow_metadata.proto.v0 import statistics_pb2 as pb

from detection_core.validation.uniform_sample import UniformSample

_IS_BYTES = ("image/encoded", "image/object/mask")
"""Columns with files: only the lengths of their values are counted."""
_TOP_VALUES, _RANKED = 20, 1_000
INVALID_TEXT = "__BYTES_VALUE__"
"""Replacement for text that is not UTF-8, as in TFDV."""
_MOST_VALUES = 20_000
"""Maximum number of distinct texts counted per column; with more, frequencies are omitted."""
_SAMPLED, _COUNTED = 10_000, 2_000
_BUCKETS = 10
_MOST_COLUMNS = 1_000
"""Maximum number of columns, the first by name, which bounds memory; no tool writes as many."""


class _Lengths:
    """Number of values of a column per example, or bytes per file."""

    def __init__(self) -> None:
        self.present = self.total = self.largest = 0
        self.smallest = -1

    def add(self, count: int) -> None:
        self.present += 1
        self.total += count
        self.largest = max(self.largest, count)
        self.smallest = count if self.smallest < 0 else min(self.smallest, count)

    def merge(self, other: "_Lengths") -> None:
        self.present += other.present
        self.total += other.total
        self.largest = max(self.largest, other.largest)
        known = [one for one in (self.smallest, other.smallest) if one >= 0]
        self.smallest = min(known, default=-1)

    def fill(self, common: Any, examples: int) -> None:
        common.num_non_missing = self.present
        common.num_missing = examples - self.present
        common.min_num_values = max(0, self.smallest)
        common.max_num_values = self.largest
        common.tot_num_values = self.total
        common.avg_num_values = self.total / self.present if self.present else 0.0


class _Range:
    """Statistics of numbers: sums of finite values and of their squares, the rest of all values except NaN.

    The sums are exact, so they do not depend on how the values are divided.
    """

    def __init__(self) -> None:
        self.count = self.zeros = self.nans = 0
        self.total = self.squares = Fraction()
        self.least, self.most = float("inf"), float("-inf")

    def add(self, values: Sequence[Any]) -> None:
        numbers: np.ndarray = np.asarray(values, np.float64)
        finite = [value for value in values if math.isfinite(value)]
        self.nans += int(np.isnan(numbers).sum())
        self.zeros += int((numbers == 0).sum())
        self.least = float(np.fmin.reduce(numbers, initial=self.least))
        self.most = float(np.fmax.reduce(numbers, initial=self.most))
        self.count += len(finite)
        self.total += _exact_sum(finite)
        self.squares += _exact_sum([value * value for value in finite])

    def merge(self, other: "_Range") -> None:
        for name in ("count", "zeros", "nans", "total", "squares"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)

    def mean(self) -> float:
        return float(self.total / self.count)

    def deviation(self) -> float:
        return math.sqrt(self.squares / self.count - (self.total / self.count) ** 2)


def _exact_sum(values: Sequence[Any]) -> Fraction:
    """Return the sum of integers, or of numbers of 32 bits or their squares, without rounding."""
    if values and isinstance(values[0], int):
        return Fraction(sum(values))
    total, terms = Fraction(), list(values)
    while part := math.fsum(terms):
        total += Fraction(part)
        terms.append(-part)
    return total


class _NumberColumn:
    """A column of integers or floats."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.lengths = _Lengths()
        self._waiting: list[Any] = []
        self._range = _Range()
        self._sample = UniformSample(_SAMPLED, columns=1)

    def add(self, values: Any, record: int) -> None:
        self.lengths.add(len(values))
        numbers = list(values)
        self._sample.add(record, numbers)
        self._waiting += numbers
        if len(self._waiting) >= _COUNTED:
            self._count()

    def _count(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._range.add(waiting)

    def merge(self, other: "_NumberColumn") -> None:
        other._count()
        self.lengths.merge(other.lengths)
        self._range.merge(other._range)
        self._sample.merge(other._sample)

    def fill(self, feature: Any, examples: int) -> None:
        self._count()
        feature.type = self.kind
        stats, found = feature.num_stats, self._range
        self.lengths.fill(stats.common_stats, examples)
        if not found.count:
            return
        stats.mean, stats.std_dev = found.mean(), found.deviation()
        stats.min, stats.max, stats.num_zeros = found.least, found.most, found.zeros
        _, rows = self._sample.kept()
        sample = rows[np.isfinite(rows)]
        if not len(sample):
            return
        stats.median = float(np.median(sample))
        scale = found.count / len(sample)
        counts, edges = np.histogram(sample, bins=_BUCKETS, range=(float(sample.min()), float(sample.max())))
        _fill_buckets(stats.histograms.add(type=pb.Histogram.STANDARD), edges, counts * scale, found.nans)
        quantiles = np.quantile(sample, np.linspace(0, 1, _BUCKETS + 1))
        even = np.full(_BUCKETS, found.count / _BUCKETS)
        _fill_buckets(stats.histograms.add(type=pb.Histogram.QUANTILES), quantiles, even, found.nans)


def _fill_buckets(histogram: Any, edges: np.ndarray, counts: np.ndarray, nans: int) -> None:
    histogram.num_nan = nans
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        histogram.buckets.add(low_value=float(low), high_value=float(high), sample_count=float(count))


class _TextColumn:
    """A column of texts."""

    def __init__(self) -> None:
        self.lengths = _Lengths()
        self._values: Counter[bytes] | None = Counter()
        self._characters = 0

    def add(self, values: Any, _: int) -> None:
        self.lengths.add(len(values))
        self._characters += sum(map(len, values))
        self._update(values)

    def merge(self, other: "_TextColumn") -> None:
        self.lengths.merge(other.lengths)
        self._characters += other._characters
        self._update(other._values)

    def _update(self, values: Any) -> None:
        """Count values, or add a counter of values; None: there are too many."""
        if self._values is not None and values is not None:
            self._values.update(values)
        if values is None or (self._values and len(self._values) > _MOST_VALUES):
            self._values = None

    def fill(self, feature: Any, examples: int) -> None:
        feature.type = pb.FeatureNameStatistics.STRING
        stats = feature.string_stats
        self.lengths.fill(stats.common_stats, examples)
        stats.avg_length = self._characters / self.lengths.total if self.lengths.total else 0.0
        if self._values is None:
            return
        stats.unique = len(self._values)
        # The most frequent first; ties in reverse alphabetical order, as in TFDV.
        ranked = sorted(self._values.items(), key=lambda item: (item[1], item[0]), reverse=True)
        for value, count in ranked[:_TOP_VALUES]:
            stats.top_values.add(value=_shown(value), frequency=count)
        for rank, (value, count) in enumerate(ranked[:_RANKED]):
            stats.rank_histogram.buckets.add(
                low_rank=rank, high_rank=rank, label=_shown(value), sample_count=count
            )
        stats.invalid_utf8_count = sum(count for value, count in ranked if not _is_text(value))


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(value: bytes) -> str:
    try:
        return value.decode()[:200]
    except UnicodeDecodeError:
        return INVALID_TEXT


class _FileColumn:
    """A column of files, of which only the lengths are counted."""

    def __init__(self) -> None:
        self.lengths, self._sizes = _Lengths(), _Lengths()

    def add(self, values: Any, _: int) -> None:
        self.lengths.add(len(values))
        for value in values:
            self._sizes.add(len(value))

    def merge(self, other: "_FileColumn") -> None:
        self.lengths.merge(other.lengths)
        self._sizes.merge(other._sizes)

    def fill(self, feature: Any, examples: int) -> None:
        feature.type = pb.FeatureNameStatistics.BYTES
        stats = feature.bytes_stats
        self.lengths.fill(stats.common_stats, examples)
        sizes = self._sizes
        stats.avg_num_bytes = sizes.total / sizes.present if sizes.present else 0.0
        stats.min_num_bytes, stats.max_num_bytes_int = max(0, sizes.smallest), sizes.largest
        stats.max_num_bytes = float(sizes.largest)


_Column = _NumberColumn | _TextColumn | _FileColumn
_KINDS: dict[str, Callable[[str], _Column]] = {
    "int64_list": lambda key: _NumberColumn(pb.FeatureNameStatistics.INT),
    "float_list": lambda key: _NumberColumn(pb.FeatureNameStatistics.FLOAT),
    "bytes_list": lambda key: _FileColumn() if key in _IS_BYTES else _TextColumn(),
}


class FeatureCounter:
    """Counts the columns of examples one by one."""

    def __init__(self) -> None:
        self._examples = 0
        self._columns: dict[tuple[str, str], Any] = {}
        self._end: tuple[str, ...] = (chr(sys.maxunicode),)

    def add(self, features: Mapping[str, Any], record: int) -> None:
        """Count an example, given the number of its record, which decides on samples."""
        self._examples += 1
        for key, feature in features.items():
            kind = feature.WhichOneof("kind")
            if kind is None:
                continue
            column = self._columns.get((key, kind))
            if column is None and (key, kind) < self._end:
                column = self._columns[key, kind] = _KINDS[kind](key)
                self._drop_last()
            if column is not None:
                column.add(getattr(feature, kind).value, record)

    def merge(self, other: "FeatureCounter") -> None:
        """Add the counts of other records."""
        self._examples += other._examples
        for name, column in other._columns.items():
            if name in self._columns:
                self._columns[name].merge(column)
            else:
                self._columns[name] = column
                self._drop_last()

    def _drop_last(self) -> None:
        """Drop the last column by name if there are too many."""
        if len(self._columns) > _MOST_COLUMNS:
            self._end = last = max(self._columns)
            del self._columns[last]

    def statistics(self) -> pb.DatasetFeatureStatisticsList:
        """Return the statistics so far; a column with several types appears once per type."""
        result = pb.DatasetFeatureStatisticsList()
        dataset = result.datasets.add(num_examples=self._examples)
        for (key, _), column in sorted(self._columns.items()):
            feature = dataset.features.add()
            column.fill(feature, self._examples)
            feature.path.step.append(key)
        return result
