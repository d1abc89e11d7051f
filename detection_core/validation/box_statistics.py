"""Counts boxes by class, size, aspect and position, and images by size and number of objects.

Statistics of parts can be added in any order. `compare` tests whether two samples of images have the same
distribution. Boxes of one image resemble each other. Pearson's test assumes independence, and raises a false
alarm in every second comparison. Here the sampling unit is the image: the share of a bin is a ratio of two
sums over images. Its variance is that of a ratio estimator (Cochran, "Sampling Techniques", 3rd edition,
1977, section 6.4). The share is that of both samples together, as in a score test. Bins are compared one by
one, with Bonferroni's correction.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

from detection_core.artifacts.data_statistics import Histogram, SampleStatistics
from detection_core.validation.labelled_images import LabelledImage

_CHUNK = 512
"""Number of images counted at once."""

SIZES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
"""Bin edges: square root of the box's area as a fraction of the image's."""
ASPECTS = (0.25, 0.5, 0.71, 1.41, 2.0, 4.0)
"""Bin edges: width over height in pixels, of a box or an image."""
COUNTS = (1, 2, 3, 5, 9, 17, 33)
"""Bin edges: objects per image."""
PIXELS = (128, 256, 512, 1024, 2048, 4096)
"""Bin edges: square root of an image's area, in pixels."""
GRID = 4
"""Rows and columns of the grid of box centers."""


def named_ranges(edges: Sequence[float]) -> list[str]:
    """Return the names of the bins between edges, and below and above them."""
    names = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(edges)]
    return [f"below {edges[0]:g}", *names, f"{edges[-1]:g} and more"]


BOX_BINS = {
    "size": named_ranges(SIZES),
    "aspect": named_ranges(ASPECTS),
    "place": [f"row {row + 1} column {column + 1}" for row in range(GRID) for column in range(GRID)],
}
"""Property of boxes to the names of its bins; classes are another one."""
IMAGE_BINS = {
    "objects of an image": named_ranges(COUNTS),
    "image size": named_ranges(PIXELS),
    "image aspect": named_ranges(ASPECTS),
}
"""Property of images to the names of its bins."""


class SampleCounter:
    """Counts images one by one."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._waiting: list[LabelledImage] = []
        self._merged: list[SampleStatistics] = []
        self._images = self._empty = self._objects = 0
        bins = {"class": list(classes), **BOX_BINS, **IMAGE_BINS}
        self._counters = {name: _HistogramCounter(named) for name, named in bins.items()}

    def add(self, image: LabelledImage) -> None:
        """Count an image without its crowd regions."""
        self._waiting.append(dataclasses.replace(image, features=None))
        if len(self._waiting) >= _CHUNK:
            self._count()

    def statistics(self) -> SampleStatistics:
        """Return the sums so far."""
        self._count()
        added = SampleStatistics(
            images=self._images,
            empty_images=self._empty,
            objects=self._objects,
            histograms={name: counter.histogram() for name, counter in self._counters.items()},
        )
        return add_up([added, *self._merged])

    def merge(self, other: "SampleCounter") -> None:
        """Add the counts of another counter."""
        self._merged = [add_up([*self._merged, other.statistics()])]

    def _count(self) -> None:
        images, self._waiting = self._waiting, []
        if not images:
            return
        kept = [~image.is_crowd for image in images]
        counts = np.asarray([int(rows.sum()) for rows in kept])
        boxes = np.concatenate([i.boxes[rows] for i, rows in zip(images, kept, strict=True)])
        classes = np.concatenate([i.classes[rows] for i, rows in zip(images, kept, strict=True)])
        sides = np.asarray([(max(i.height, 1), max(i.width, 1)) for i in images], np.float64)
        self.add_columns(counts, boxes, classes, sides)

    def add_columns(
        self, counts: np.ndarray, boxes: np.ndarray, classes: np.ndarray, sides: np.ndarray
    ) -> None:
        """Count many images at once.

        Args:
            counts: int [B], objects of each image.
            boxes: float [N, 4], ymin, xmin, ymax, xmax, normalised, of all images in order.
            classes: int [N], index in the names of the label map; -1 for none.
            sides: float [B, 2], height and width of each image, pixels.
        """
        images = len(counts)
        owners: np.ndarray = np.repeat(np.arange(images), counts)
        self._images += images
        self._empty += int((counts == 0).sum())
        self._objects += int(counts.sum())
        for name, bins in find_box_bins(boxes, classes, sides[owners]).items():
            self._counters[name].add(bins, owners, images)
        for name, bins in find_image_bins(counts, sides).items():
            self._counters[name].add(bins, np.arange(images), images)


def find_image_bins(counts: np.ndarray, sides: np.ndarray) -> dict[str, np.ndarray]:
    """Return each image's bins; arguments as of `SampleCounter.add_columns`."""
    return {
        "objects of an image": np.digitize(counts, COUNTS),
        "image size": np.digitize(np.sqrt(sides.prod(axis=1)), PIXELS),
        "image aspect": np.digitize(sides[:, 1] / sides[:, 0], ASPECTS),
    }


def find_box_bins(boxes: np.ndarray, classes: np.ndarray, sides: np.ndarray) -> dict[str, np.ndarray]:
    """Return each box's bins, -1 for none; `sides` [N, 2] are its image's height and width in pixels."""
    height, width = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    size = np.sqrt(np.clip(height * width, 0.0, None))
    aspect = (width * sides[:, 1]) / np.maximum(height * sides[:, 0], 1e-9)
    rows, columns = (boxes[:, 0] + boxes[:, 2]) / 2 * GRID, (boxes[:, 1] + boxes[:, 3]) / 2 * GRID
    cells = [np.clip(np.nan_to_num(c), 0, GRID - 1).astype(int) for c in (rows, columns)]
    return {
        "class": classes,
        "size": np.digitize(size, SIZES),
        "aspect": np.digitize(aspect, ASPECTS),
        "place": cells[0] * GRID + cells[1],
    }


class _HistogramCounter:
    def __init__(self, bins: list[str]) -> None:
        self._bins = bins
        self._sums: np.ndarray = np.zeros((4, len(bins)), np.int64)
        self._total_squares = 0

    def add(self, bins: np.ndarray, owners: np.ndarray, images: int) -> None:
        """Count objects by their bins and images; skip those with bin -1."""
        known, size = bins >= 0, len(self._bins)
        # Only pairs of image and bin that occur: a full table would be large with many classes.
        pairs, counts = np.unique(owners[known] * size + bins[known], return_counts=True)
        bin_of, totals = pairs % size, np.bincount(owners[known], minlength=images)
        for row, values in enumerate((counts, counts**2, counts * totals[pairs // size], counts > 0)):
            np.add.at(self._sums[row], bin_of, values)
        self._total_squares += int((totals**2).sum())

    def histogram(self) -> Histogram:
        return _histogram(self._bins, self._sums, self._total_squares)


_SUMS = ("counts", "squares", "products", "images")


def _sums(histogram: Histogram, bins: Sequence[str]) -> np.ndarray:
    """Return `_SUMS` of a histogram in the order of given bins, int64 [4, B]; 0 for bins that it lacks."""
    at = {name: place for place, name in enumerate(bins)}
    found: np.ndarray = np.zeros((len(_SUMS), len(bins)), np.int64)
    found[:, [at[name] for name in histogram.bins]] = [getattr(histogram, name) for name in _SUMS]
    return found


def _histogram(bins: list[str], sums: np.ndarray, total_squares: int) -> Histogram:
    return Histogram(bins=bins, **dict(zip(_SUMS, sums.tolist(), strict=True)), total_squares=total_squares)


def add_up(parts: Sequence[SampleStatistics]) -> SampleStatistics:
    """Return the statistics of several samples together; a histogram that one lacks is dropped."""
    if not parts:
        return SampleStatistics()
    common = [n for n in parts[0].histograms if all(n in p.histograms for p in parts)]
    return SampleStatistics(
        images=sum(p.images for p in parts),
        empty_images=sum(p.empty_images for p in parts),
        objects=sum(p.objects for p in parts),
        histograms={n: _add_histograms([p.histograms[n] for p in parts]) for n in common},
    )


def _add_histograms(parts: Sequence[Histogram]) -> Histogram:
    """Add histograms of the same name; later samples may have more classes."""
    bins = list(dict.fromkeys(b for part in parts for b in part.bins))
    sums: np.ndarray = np.sum([_sums(part, bins) for part in parts], axis=0)
    return _histogram(bins, sums, sum(part.total_squares for part in parts))


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
    here, there = _sums(sample, bins), _sums(reference, bins)
    (p_counts, *_, p_images), (q_counts, *_, q_images) = here, there
    if not p_counts.any() or not q_counts.any():
        return None
    p, q = p_counts / p_counts.sum(), q_counts / q_counts.sum()
    pooled = (p_counts + q_counts) / (p_counts.sum() + q_counts.sum())
    variance = _variance(here, sample.total_squares, pooled) + _variance(
        there, reference.total_squares, pooled
    )
    compared = np.flatnonzero((p_images + q_images >= LEAST_IMAGES_OF_A_BIN) & (variance > 0))
    if not len(compared):
        return None
    deviations = np.abs(p - q)[compared] / np.sqrt(variance[compared])
    at = int(compared[deviations.argmax()])
    # Two-sided test, with Bonferroni's correction for the number of bins.
    tails = math.erfc(float(deviations.max()) / math.sqrt(2))
    return Comparison(
        p_value=min(1.0, len(compared) * tails),
        divergence=float(jensen_shannon(p, q)),
        most_changed=bins[at],
        before=float(q[at]),
        after=float(p[at]),
    )


def _variance(sums: np.ndarray, total_squares: int, share: np.ndarray) -> np.ndarray:
    """Return the variance of sum(x) / sum(n) for each bin, if `share` is the true share."""
    counts, squares, products, _ = sums
    found = squares - 2 * share * products + share**2 * total_squares
    result: np.ndarray = np.clip(found, 0.0, None) / float(counts.sum()) ** 2
    return result


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the Jensen-Shannon divergence of shares, float [..., B], in bits, float [...].

    Lin, 1991, https://doi.org/10.1109/18.61115: entropy of the mean less mean of the entropies.
    """

    def entropy(shares: np.ndarray) -> np.ndarray:
        return -(shares * np.log2(np.where(shares > 0, shares, 1))).sum(axis=-1)

    return np.clip(entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2, 0.0, 1.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests (Holm, 1979, https://www.jstor.org/stable/4615733).

    Under any dependence of the tests, the probability of rejecting any true hypothesis is at most the level.
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.minimum(1.0, np.arange(len(order), 0, -1) * np.asarray(p_values)[order])
    adjusted: np.ndarray = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(scaled)
    return adjusted.tolist()
