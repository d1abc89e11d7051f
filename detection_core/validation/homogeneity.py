"""Tests whether two samples of images have the same distribution, by the sums in `box_statistics`.

Boxes of one image resemble each other. Pearson's test assumes independence, and raises a false alarm in every
second comparison. Here the sampling unit is the image: the share of a bin is a ratio of two sums over images.
Its variance is that of a ratio estimator (Cochran, "Sampling Techniques", 3rd edition, 1977, section 6.4).
The share is that of both samples together, as in a score test. Bins are compared one by one, with
Bonferroni's correction.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from detection_core.artifacts.data_statistics import Histogram

LEAST_IMAGES_OF_A_BIN = 10
"""Minimum number of images, in both samples together, that contain a bin to compare."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """The comparison of two histograms.

    Attributes:
        p_value: upper bound of the probability that samples of one population differ at least this much.
        divergence: Jensen-Shannon divergence in bits, from 0 (equal) to 1 (disjoint).
        most_changed: the bin whose share changed most, in standard deviations.
        before: its share in the reference.
        after: its share in the sample.
    """

    p_value: float
    divergence: float
    most_changed: str
    before: float
    after: float


def compare(sample: Histogram, reference: Histogram) -> Comparison | None:
    """Compare two histograms.

    Returns:
        None if no bin has enough images, or nothing varies.
    """
    bins = sorted({*sample.bins, *reference.bins})
    here, there = _Sums.of(sample, bins), _Sums.of(reference, bins)
    if not here.total or not there.total:
        return None
    p, q = here.counts / here.total, there.counts / there.total
    pooled = (here.counts + there.counts) / (here.total + there.total)
    variance = here.variance(pooled) + there.variance(pooled)
    compared = np.flatnonzero((here.images + there.images >= LEAST_IMAGES_OF_A_BIN) & (variance > 0))
    if not len(compared):
        return None
    deviations = np.abs(p - q)[compared] / np.sqrt(variance[compared])
    at = int(compared[deviations.argmax()])
    # Two-sided test, with Bonferroni's correction for the number of bins.
    tails = math.erfc(float(deviations.max()) / math.sqrt(2))
    return Comparison(
        p_value=min(1.0, len(compared) * tails),
        divergence=jensen_shannon(p, q),
        most_changed=bins[at],
        before=float(q[at]),
        after=float(p[at]),
    )


@dataclasses.dataclass(frozen=True)
class _Sums:
    """The sums of a histogram, in the order of common bins; see `Histogram`."""

    counts: np.ndarray
    squares: np.ndarray
    products: np.ndarray
    images: np.ndarray
    total_squares: int

    @classmethod
    def of(cls, histogram: Histogram, bins: Sequence[str]) -> _Sums:
        at = {name: place for place, name in enumerate(bins)}
        places = [at[name] for name in histogram.bins]

        def column(values: Sequence[int]) -> np.ndarray:
            found: np.ndarray = np.zeros(len(bins))
            found[places] = values
            return found

        return cls(
            counts=column(histogram.counts),
            squares=column(histogram.squares),
            products=column(histogram.products),
            images=column(histogram.images),
            total_squares=histogram.total_squares,
        )

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def variance(self, share: np.ndarray) -> np.ndarray:
        """Return the variance of sum(x) / sum(n) for each bin, if `share` is the true share."""
        squares = self.squares - 2 * share * self.products + share**2 * self.total_squares
        result: np.ndarray = np.clip(squares, 0.0, None) / self.total**2
        return result


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> float:
    """Return the Jensen-Shannon divergence of shares in bits (Lin, 1991, https://doi.org/10.1109/18.61115)."""
    middle = (p + q) / 2

    def divergence(shares: np.ndarray) -> float:
        some = shares > 0
        return float((shares[some] * np.log2(shares[some] / middle[some])).sum())

    return max(0.0, (divergence(p) + divergence(q)) / 2)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests (Holm, 1979, https://www.jstor.org/stable/4615733).

    Under any dependence of the tests, the probability of rejecting any true hypothesis is at most the level.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
