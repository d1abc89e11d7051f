"""How often DataValidator's drift checks are wrong, and what they find: simulated spans of one population.

    python benchmarks/drift_false_alarms.py [--repeats 1000]

Images are drawn as real ones are: some have many objects and others none, and those of one image resemble
each other in class, size and place. Two spans of one population are compared as the checks compare them;
every finding is a false alarm. Beside it stands what the textbook's test of homogeneity does, which takes
every box for independent (Pearson's, with Holm's rule), and a rule as users of TensorFlow Data Validation set
it, an L-infinity distance of class shares above 0.01. The last table says which changes are found.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np

from detection_core.artifacts.data_statistics import Histogram, SampleStatistics
from detection_core.validation.box_statistics import SampleCounter, compare, holm
from detection_core.validation.checks import CHECKS
from detection_core.validation.drift import find_drift

RATES = {"person": 0.4, "car": 0.25, "dog": 0.15, "chair": 0.1, "cup": 0.06, "kite": 0.04}
DIVERGENCE = CHECKS["span_drift"].threshold


def draw_images(
    images: int,
    rates: Mapping[str, float] = RATES,
    *,
    seed: int,
    clustered: bool = True,
    size: float = 0.15,
    centre: float = 0.5,
) -> SampleStatistics:
    """Draw images of a population and return their statistics.

    Args:
        images: how many.
        rates: class to its share of the objects.
        seed: of the draw.
        clustered: whether objects of one image resemble each other.
        size: median root of a box's area, as a fraction of the image's.
        centre: mean place of the boxes' centres, in both directions.
    """
    random = np.random.default_rng(seed)
    names, shares = list(rates), np.asarray(list(rates.values())) / sum(rates.values())
    mean = random.gamma(1.5, 2.0, images) if clustered else np.full(images, 3.0)
    counts = np.asarray(random.poisson(mean))
    owners: np.ndarray = np.repeat(np.arange(images), counts)
    of_image, of_object = (0.7, 0.5) if clustered else (0.0, 0.86)
    preference = random.dirichlet(np.maximum(shares, 1e-3) * 2, images) if clustered else shares[None, :]
    classes = _choose(random, preference[owners] if clustered else np.repeat(preference, len(owners), 0))

    def spread(scale: float) -> np.ndarray:
        return scale * (
            of_image * random.normal(size=images)[owners] + of_object * random.normal(size=len(owners))
        )

    sides = size * np.exp(spread(0.8))
    aspect = np.exp(spread(0.4))
    height, width = np.minimum(sides / np.sqrt(aspect), 1.0), np.minimum(sides * np.sqrt(aspect), 1.0)
    y, x = (np.clip(centre + spread(0.2), length / 2, 1 - length / 2) for length in (height, width))
    boxes = np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=1)
    shapes = np.asarray([(480.0, 640.0), (640.0, 480.0), (720.0, 1280.0)])
    counter = SampleCounter(names)
    counter.add_columns(counts, boxes, classes, shapes[random.choice(3, images, p=(0.6, 0.2, 0.2))])
    return counter.statistics()


def _choose(random: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
    """Draw from a distribution a row."""
    edges = probabilities.cumsum(axis=1)
    return (random.uniform(size=(len(edges), 1)) * edges[:, -1:] > edges).sum(axis=1)


def false_alarms(images: int, repeats: int, *, clustered: bool = True, divergence: float = DIVERGENCE) -> int:
    """Return in how many comparisons of two spans of one population anything is found."""
    return sum(bool(find_drift(*_pair(images, n, clustered), divergence=divergence)) for n in range(repeats))


def _pair(images: int, number: int, clustered: bool) -> tuple[SampleStatistics, SampleStatistics]:
    one, other = (draw_images(images, seed=2 * number + i, clustered=clustered) for i in range(2))
    return one, other


def _textbook(sample: SampleStatistics, reference: SampleStatistics) -> bool:
    """Tell whether Pearson's test over boxes finds anything at 1 %."""
    found = [
        compare(_independent(here), _independent(reference.histograms[name]))
        for name, here in sample.histograms.items()
    ]
    return min(holm([f.p_value for f in found if f]), default=1.0) < 0.01


def _independent(histogram: Histogram) -> Histogram:
    counts = histogram.counts
    return Histogram(
        bins=histogram.bins,
        counts=counts,
        squares=counts,
        products=counts,
        images=counts,
        total_squares=sum(counts),
    )


def _l_infinity(sample: SampleStatistics, reference: SampleStatistics) -> bool:
    shares = [np.asarray(s.histograms["class"].counts, float) for s in (sample, reference)]
    p, q = (s / max(1.0, s.sum()) for s in shares)
    return bool(np.abs(p - q).max() > 0.01)


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a class from 40 % to 60 %": {"rates": {**RATES, "person": 0.9}},
    "a class of 4 % is gone": {"rates": {**RATES, "kite": 1e-9}},
    "boxes of half the size": {"size": 0.075},
    "boxes in the upper left": {"centre": 0.35},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="False alarms of the drift checks.")
    parser.add_argument("--repeats", type=int, default=1000)
    repeats = parser.parse_args().repeats
    print(f"false alarms in {repeats} comparisons of two spans of one population")
    print("| images a span | objects of an image | test alone | test and divergence | Pearson | L-infinity |")
    print("|---|---|---|---|---|---|")
    for clustered in (True, False):
        for images in (30, 100, 300, 1000, 3000):
            pairs = [_pair(images, n, clustered) for n in range(repeats)]
            rates = [
                sum(bool(find_drift(*p, divergence=0.0)) for p in pairs),
                sum(bool(find_drift(*p, divergence=DIVERGENCE)) for p in pairs),
                sum(_textbook(*p) for p in pairs),
                sum(_l_infinity(*p) for p in pairs),
            ]
            kind = "alike" if clustered else "independent"
            print(f"| {images} | {kind} | {' | '.join(f'{100 * rate / repeats:.1f} %' for rate in rates)} |")
    print("\nfound in 100 comparisons")
    print("| change | 30 images | 100 | 300 | 1000 |\n|---|---|---|---|---|")
    for name, change in CHANGES.items():
        found = []
        for images in (30, 100, 300, 1000):
            pairs = [
                (draw_images(images, seed=2 * n, **change), draw_images(images, seed=2 * n + 1))
                for n in range(100)
            ]
            found.append(sum(bool(find_drift(*p, divergence=DIVERGENCE)) for p in pairs))
        print(f"| {name} | {' | '.join(map(str, found))} |")


if __name__ == "__main__":
    main()
