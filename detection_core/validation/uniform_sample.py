"""A uniform sample of the rows of records, the same however the records are divided and ordered."""

from typing import Any

import numpy as np

_PLACE_BITS = 24
_BATCH = 8_192
"""Number of rows looked at together."""


class UniformSample:
    """Keeps the rows with the smallest pseudo-random numbers, which their records and places determine.

    Samples of parts can be merged in any order ("bottom-k sketches": Cohen and Kaplan, 2007,
    https://doi.org/10.1145/1281100.1281133).
    """

    def __init__(self, size: int, columns: int) -> None:
        self.seen = self._looked_at = 0
        self._size = size
        self._waiting: list[tuple[int, Any]] = []
        self._places: np.ndarray = np.zeros(0, np.uint64)
        self._rows: np.ndarray = np.zeros((0, columns))

    def add(self, record: int, rows: Any) -> None:
        """Add the rows of a record, numbers [N] or [N, columns]."""
        self.seen += len(rows)
        if len(rows):
            self._waiting.append((record, rows))
        if self.seen - self._looked_at >= _BATCH:
            self.kept()

    def merge(self, other: "UniformSample") -> None:
        """Add the rows of other records."""
        other.kept()
        self.seen += other.seen
        self._looked_at += other.seen
        self._keep(other._places, other._rows)

    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the records, int64 [K], and the rows, float64 [K, columns], in the records' order."""
        waiting, self._waiting, self._looked_at = self._waiting, [], self.seen
        if waiting:
            places = np.concatenate([(n << _PLACE_BITS) + np.arange(len(rows)) for n, rows in waiting])
            rows = np.concatenate([np.asarray(rows, np.float64) for _, rows in waiting])
            self._keep(places.astype(np.uint64), rows.reshape(-1, self._rows.shape[1]))
        return (self._places >> np.uint64(_PLACE_BITS)).astype(np.int64), self._rows

    def _keep(self, places: np.ndarray, rows: np.ndarray) -> None:
        places, rows = np.append(self._places, places), np.append(self._rows, rows, axis=0)
        smallest = np.argsort(_mixed(places), kind="stable")[: self._size]
        order = smallest[np.argsort(places[smallest])]
        self._places, self._rows = places[order], rows[order]


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Map numbers, uint64 [N], one to one to pseudo-random ones (SplitMix64, Steele et al., 2014)."""
    mixed: np.ndarray = numbers + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
