"""Statistics of the columns of examples, as TFDV's TensorFlow Metadata protos.

TensorFlow Data Validation has wheels for x86-64 only, and needs a package without wheels. So this module
computes the statistics, in one pass and bounded memory. TFDV's tools read and compare them. Counters of
parts of the examples can be merged in any order.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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


class _Range:
    """Exact sums and extremes of numbers, which do not depend on how the numbers are divided.

    Attributes:
        sums: `count`, `total` and `squares` of finite values, `zeros`, and `nans`.
        least: smallest value except NaN.
        most: largest value except NaN.
    """

    def __init__(self) -> None:
        self._waiting: list[Any] = []
        self.sums: Any = Counter()
        self.least, self.most = math.inf, -math.inf

    def add(self, values: Iterable[Any]) -> None:
        self._waiting += values
        if len(self._waiting) >= _COUNTED:
            self.count()

    def count(self) -> "_Range":
        """Count the values that wait."""
        values, self._waiting = self._waiting, []
        numbers: np.ndarray = np.asarray(values, np.float64)
        finite = [value for value in values if math.isfinite(value)]
        squares = _exact_sum([value * value for value in finite])
        nans, zeros = int(np.isnan(numbers).sum()), int((numbers == 0).sum())
        self.sums.update(count=len(finite), total=_exact_sum(finite), squares=squares, zeros=zeros, nans=nans)
        self.least = float(np.fmin.reduce(numbers, initial=self.least))
        self.most = float(np.fmax.reduce(numbers, initial=self.most))
        return self

    def merge(self, other: "_Range") -> None:
        self.sums.update(other.count().sums)
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)

    def mean(self) -> float:
        return float(self.sums["total"] / self.sums["count"]) if self.sums["count"] else 0.0


def _exact_sum(values: Sequence[Any]) -> Fraction:
    """Return the sum of integers, or of numbers of 32 bits or their squares, without rounding."""
    if values and isinstance(values[0], int):
        return Fraction(sum(values))
    total, terms = Fraction(), list(values)
    while part := math.fsum(terms):
        total += Fraction(part)
        terms.append(-part)
    return total


class _Column:
    """A column; columns of parts of the examples add up.

    `lengths` are numbers of values per example, `range` is of the numbers, or of the texts' lengths, and
    `values` has some or all of them.
    """

    def __init__(self, values: Any = None) -> None:
        self.lengths, self.range, self.values = _Range(), _Range(), values

    def add(self, values: Any, record: int) -> None:
        self.lengths.add([len(values)])
        self.range.add(self._numbers(values))
        if self.values is not None:
            self.values.add(record, values)

    def merge(self, other: "_Column") -> None:
        self.lengths.merge(other.lengths)
        self.range.merge(other.range)
        if self.values is not None:
            self.values.merge(other.values)

    def _numbers(self, values: Any) -> Iterable[Any]:
        return map(len, values)

    def _fill_common(self, common: Any, examples: int) -> None:
        found = self.lengths.count()
        common.num_non_missing = found.sums["count"]
        common.num_missing = examples - common.num_non_missing
        if common.num_non_missing:
            common.min_num_values, common.max_num_values = int(found.least), int(found.most)
        common.tot_num_values = int(found.sums["total"])
        common.avg_num_values = found.mean()


class _NumberColumn(_Column):
    """A column of integers or floats."""

    def __init__(self, kind: int) -> None:
        super().__init__(UniformSample(_SAMPLED, columns=1))
        self.kind = kind

    def _numbers(self, values: Any) -> Iterable[Any]:
        return values

    def fill(self, feature: Any, examples: int) -> None:
        feature.type = self.kind
        stats, found = feature.num_stats, self.range.count()
        self._fill_common(stats.common_stats, examples)
        count, nans = found.sums["count"], found.sums["nans"]
        if not count:
            return
        variance = found.sums["squares"] / count - (found.sums["total"] / count) ** 2
        stats.mean, stats.std_dev = found.mean(), math.sqrt(variance)
        stats.min, stats.max, stats.num_zeros = found.least, found.most, found.sums["zeros"]
        _, rows = self.values.kept()
        sample = rows[np.isfinite(rows)]
        if not len(sample):
            return
        stats.median = float(np.median(sample))
        scale = count / len(sample)
        counts, edges = np.histogram(sample, bins=_BUCKETS, range=(float(sample.min()), float(sample.max())))
        _fill_buckets(stats.histograms.add(type=pb.Histogram.STANDARD), edges, counts * scale, nans)
        quantiles = np.quantile(sample, np.linspace(0, 1, _BUCKETS + 1))
        even = np.full(_BUCKETS, count / _BUCKETS)
        _fill_buckets(stats.histograms.add(type=pb.Histogram.QUANTILES), quantiles, even, nans)


def _fill_buckets(histogram: Any, edges: np.ndarray, counts: np.ndarray, nans: int) -> None:
    histogram.num_nan = nans
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        histogram.buckets.add(low_value=float(low), high_value=float(high), sample_count=float(count))


class _Texts:
    """Counts texts, unless there are too many different ones: then `counts` is None."""

    def __init__(self) -> None:
        self.counts: Counter[bytes] | None = Counter()

    def add(self, _: int, values: Any) -> None:
        if self.counts is not None:
            self.counts.update(values)
            self.counts = self.counts if len(self.counts) <= _MOST_VALUES else None

    def merge(self, other: "_Texts") -> None:
        if other.counts is None:
            self.counts = None
        self.add(0, other.counts)


class _TextColumn(_Column):
    """A column of texts."""

    def __init__(self) -> None:
        super().__init__(_Texts())

    def fill(self, feature: Any, examples: int) -> None:
        feature.type = pb.FeatureNameStatistics.STRING
        stats, counts = feature.string_stats, self.values.counts
        self._fill_common(stats.common_stats, examples)
        stats.avg_length = self.range.count().mean()
        if counts is None:
            return
        stats.unique = len(counts)
        # The most frequent first; ties in reverse alphabetical order, as in TFDV.
        ranked = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
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


class _FileColumn(_Column):
    """A column of files, of which only the lengths are counted."""

    def fill(self, feature: Any, examples: int) -> None:
        feature.type = pb.FeatureNameStatistics.BYTES
        stats, sizes = feature.bytes_stats, self.range.count()
        self._fill_common(stats.common_stats, examples)
        if sizes.sums["count"]:
            stats.min_num_bytes, stats.max_num_bytes_int = int(sizes.least), int(sizes.most)
        stats.avg_num_bytes, stats.max_num_bytes = sizes.mean(), float(stats.max_num_bytes_int)


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

    def add(self, features: Mapping[str, Any], record: int) -> None:
        """Count an example, given the number of its record, which decides on samples."""
        self._examples += 1
        for key in sorted(features)[:_MOST_COLUMNS]:
            kind = features[key].WhichOneof("kind")
            if kind is None:
                continue
            if (key, kind) not in self._columns:
                self._columns[key, kind] = _KINDS[kind](key)
            self._columns[key, kind].add(list(getattr(features[key], kind).value), record)
        self._drop_last()

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
        """Drop the last columns by name if there are too many."""
        for name in sorted(self._columns)[_MOST_COLUMNS:]:
            del self._columns[name]

    def statistics(self) -> pb.DatasetFeatureStatisticsList:
        """Return the statistics so far; a column with several types appears once per type."""
        result = pb.DatasetFeatureStatisticsList()
        dataset = result.datasets.add(num_examples=self._examples)
        for (key, _), column in sorted(self._columns.items()):
            feature = dataset.features.add()
            column.fill(feature, self._examples)
            feature.path.step.append(key)
        return result
