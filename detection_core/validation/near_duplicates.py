"""Near-identical images of a data set, found by their perceptual hashes without comparing all with all.

The index is multi-index hashing (Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with Multi-Index
Hashing", CVPR 2012, https://arxiv.org/abs/1307.2982): hashes are cut into one band more than half the bits
that near-identical ones differ in at most, so that of two of them some band differs in at most one bit. For
24 bits these are 13 bands of 19 or 20 bits, and an image is compared with those in 20 or 21 buckets of each
band. The search is exact: every pair within the distance is compared. Only where buckets are too full for
that, as with the frames of a camera that stands still, is an image compared with as many of each bucket as
fit the budget, and the result says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from detection_core.validation.perceptual_hash import BITS, HASH_BYTES

MAX_DISTANCE = 24
"""Bits, of 256, in which the hashes of near-identical images differ at most.

What it finds, measured on 120 photos and 60 drawings: compression, half and double size and less contrast
change 0 to 10 bits, turning as EXIF says 0 to 4, brightness that clips 0 to 20; cutting 1 % off each side 12
to 26, so of such crops a few are missed.

What it takes for identical by mistake: none of 8 * 10^8 pairs of random pictures with the spectrum of natural
ones, which differ in 128 bits with a standard deviation of 8, and in 80 at least; one of 1.1 * 10^6 pairs of
drawings of one to four shapes on white; none of the 66,066 pairs of 364 blood smears, of which it finds the
one that was taken twice. Pictures of one scene that differ in a small object are near-identical on purpose:
in two splits they leak.
"""

MAX_INDEXED_DISTANCE = 31
"""Largest distance that is searched for."""

MIN_BANDS = 13
"""Bands at least: a table of 2^20 buckets each is as large as fits a processor's cache."""

_CHUNK = 1 << 20
_LEAST_BUDGET, _BUDGET_AN_IMAGE = 200_000_000, 3_000
_WORDS = HASH_BYTES // 8
_NONE = np.iinfo(np.int64).max
_SHIFT = 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class NearDuplicates:
    """Which images of a data set are near-identical to others. Images go by their index.

    Attributes:
        nearest: int64 [N], the most alike other image within the distance, of several the first; -1 where
            there is none.
        distances: int64 [N], bits to it; -1 where there is none.
        nearest_across: int64 [N], likewise among the images of other splits.
        distances_across: int64 [N], likewise.
        groups: int64 [N], the first image of the group that chains of near-identical images make; an image
            that has none is its own.
        complete: whether every pair within the distance was compared; False where too many images are alike
            for that, and the numbers are lower bounds.
    """

    nearest: np.ndarray
    distances: np.ndarray
    nearest_across: np.ndarray
    distances_across: np.ndarray
    groups: np.ndarray
    complete: bool

    @property
    def images(self) -> int:
        """Number of images that have a near-identical one."""
        return int((self.nearest >= 0).sum())

    @property
    def images_across(self) -> int:
        """Number of images that have a near-identical one in another split."""
        return int((self.nearest_across >= 0).sum())

    def pairs(self, *, across: bool = False) -> list[tuple[int, int, int]]:
        """Return (image, other, bits): each image and its nearest one, once, the most alike pair first.

        Args:
            across: pairs of images of different splits.
        """
        nearest, bits = (
            (self.nearest_across, self.distances_across) if across else (self.nearest, self.distances)
        )
        pairs = set()
        for image in np.flatnonzero(nearest >= 0).tolist():
            other = int(nearest[image])
            pairs.add((int(bits[image]), min(image, other), max(image, other)))
        return [(first, second, distance) for distance, first, second in sorted(pairs)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NearestImages:
    """Which images look like one of others. Images go by their index.

    Attributes:
        nearest: int64 [N], the most alike of the others within the distance, of several the first; -1 where
            there is none.
        distances: int64 [N], bits to it; -1 where there is none.
        complete: as of `NearDuplicates`.
    """

    nearest: np.ndarray
    distances: np.ndarray
    complete: bool


def _ignore_band() -> None:
    pass


def find_near_duplicates(
    hashes: Sequence[bytes | None],
    splits: Sequence[int] | None = None,
    *,
    max_distance: int = MAX_DISTANCE,
    budget: int | None = None,
    on_band: Callable[[], None] = _ignore_band,
) -> NearDuplicates:
    """Find near-identical images.

    A million different images take about 40 seconds of a core and 310 MB.

    Args:
        hashes: of the images, as `perceptual_hash` gives them; None for images that are not compared.
        splits: split of each image, as any number; None: all are of one.
        max_distance: bits in which the hashes of near-identical images differ at most, up to
            `MAX_INDEXED_DISTANCE`.
        budget: comparisons above which full buckets are searched in part; None: what takes about 30 seconds
            for 100,000 images.
        on_band: called after each of `band_count` bands.
    """
    _check_distance(max_distance)
    nodes = _Nodes.of(hashes, splits)
    links = _Links(nodes)
    index = _Index(nodes.hashes, max_distance)
    window = _window(index, None, budget or _default_budget(len(nodes.first)))
    for one, other, bits in _compare(index, None, window, on_band):
        links.add(one, other, bits)
    return links.result(len(hashes), complete=window is None)


def find_nearest_images(
    hashes: Sequence[bytes | None],
    others: Sequence[bytes | None],
    *,
    max_distance: int = MAX_DISTANCE,
    budget: int | None = None,
    on_band: Callable[[], None] = _ignore_band,
) -> NearestImages:
    """Find the images that are near-identical to one of others.

    Args:
        hashes: of the images, as `perceptual_hash` gives them; None for images that are not compared.
        others: of those that they are compared with, likewise.
        max_distance: as of `find_near_duplicates`; so are the next two.
        budget: comparisons above which full buckets are searched in part.
        on_band: called after each of `band_count` bands.
    """
    _check_distance(max_distance)
    asked, known = _Nodes.of(hashes, None), _Nodes.of(others, None)
    index = _Index(known.hashes, max_distance)
    window = _window(index, asked.hashes, budget or _default_budget(len(asked.first)))
    best = np.full(len(asked.first), _NONE)
    for one, other, bits in _compare(index, asked.hashes, window, on_band):
        np.minimum.at(best, one, (bits << _SHIFT) + known.first[other])
    nearest, distances = _unpacked(best[asked.node], asked.images, len(hashes))
    return NearestImages(nearest=nearest, distances=distances, complete=window is None)


def band_count(max_distance: int = MAX_DISTANCE) -> int:
    """Return how many bands hashes are cut into to find those within a distance."""
    return max(MIN_BANDS, max_distance // 2 + 1)


def _check_distance(max_distance: int) -> None:
    if not 0 <= max_distance <= MAX_INDEXED_DISTANCE:
        raise ValueError(f"expected a distance from 0 to {MAX_INDEXED_DISTANCE} bits, found {max_distance}")


def _default_budget(images: int) -> int:
    return max(_LEAST_BUDGET, _BUDGET_AN_IMAGE * images)


@dataclasses.dataclass(frozen=True)
class _Nodes:
    """The different hashes of each split, so that a thousand copies are not half a million pairs.

    Attributes:
        images: int64 [K], the images that are compared.
        node: int64 [K], node of each.
        hashes: uint64 [M, 4], of the nodes.
        splits: int64 [M], of the nodes.
        first: int64 [M], the first image of each.
        second: int64 [M], the second one; -1 where there is none.
    """

    images: np.ndarray
    node: np.ndarray
    hashes: np.ndarray
    splits: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, hashes: Sequence[bytes | None], splits: Sequence[int] | None) -> _Nodes:
        images = np.array([i for i, h in enumerate(hashes) if h is not None], np.int64)
        split = np.zeros(len(images), np.int64) if splits is None else np.asarray(splits, np.int64)[images]
        words = np.frombuffer(b"".join(h for h in hashes if h is not None), np.uint64).reshape(-1, _WORDS)
        # The hash comes before the split, so that splits are mixed where a part of a bucket is searched;
        # equal ones stay in the order of the images.
        order = np.lexsort((split, *words.T[::-1]))
        is_new: np.ndarray = np.ones(len(order), bool)
        is_new[1:] = (np.diff(split[order]) != 0) | (words[order[1:]] != words[order[:-1]]).any(axis=1)
        node: np.ndarray = np.empty(len(order), np.int64)
        node[order] = np.cumsum(is_new) - 1
        places = np.flatnonzero(is_new)
        first = order[places]
        has_second = np.append(np.diff(places), len(order) - places[-1:]) > 1
        second = np.full(len(places), -1)
        second[has_second] = images[order[places[has_second] + 1]]
        return cls(
            images=images,
            node=node,
            hashes=words[first],
            splits=split[first],
            first=images[first],
            second=second,
        )


_Probe = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Hashes that ask, the index's in the order of a band, and from which to which place of it each asks."""


class _Index:
    """Buckets of hashes by the bits of each band.

    Args:
        hashes: uint64 [M, 4].
        max_distance: bits in which near-identical ones differ at most.
    """

    def __init__(self, hashes: np.ndarray, max_distance: int) -> None:
        self.hashes, self.max_distance = hashes, max_distance
        self.bands = band_count(max_distance)
        # Of fewer bits than bands some band is the same in both.
        self._radius = int(max_distance >= self.bands)

    def probes(self, band: int, asking: np.ndarray | None = None) -> Iterator[_Probe]:
        """Yield what is to be compared by a band.

        Args:
            band: from 0 to `bands`.
            asking: uint64 [Q, 4], hashes that are compared with those of the index; None: the index's own,
                each with the others, of which each pair comes once.
        """
        keys = _band_keys(self.hashes, band, self.bands)
        order = np.argsort(keys, kind="stable")
        ends = np.cumsum(np.bincount(keys, minlength=1 << _band_bits(band, self.bands)))
        begins = np.concatenate([[0], ends[:-1]])
        own = asking is None
        asked = keys[order] if asking is None else _band_keys(asking, band, self.bands)
        rows = order if own else np.arange(len(asked))
        yield rows, order, np.arange(1, len(order) + 1) if own else begins[asked], ends[asked]
        for bit in range(_band_bits(band, self.bands) if self._radius else 0):
            beside = asked ^ (1 << bit)
            begin, end = begins[beside], ends[beside]
            # Of a pair of the index's own the one without the bit finds the other.
            yield rows, order, begin, np.where(beside > asked, end, begin) if own else end


def _band_bits(band: int, bands: int) -> int:
    return len(range(band, BITS, bands))


def _band_keys(hashes: np.ndarray, band: int, bands: int) -> np.ndarray:
    """Return the bits of a band as a number, int64 [M].

    A band takes every `bands`-th bit: the frequencies beside each other in a hash depend on each other.
    """
    keys: np.ndarray = np.zeros(len(hashes), np.int64)
    for place, bit in enumerate(range(band, BITS, bands)):
        word, shift = divmod(bit, 64)
        keys |= ((hashes[:, word] >> np.uint64(shift)) & np.uint64(1)).astype(np.int64) << place
    return keys


def _window(index: _Index, asking: np.ndarray | None, budget: int) -> int | None:
    """Return with how many hashes of a bucket one is compared, so that the budget lasts; None: with all."""
    counts: np.ndarray = np.zeros(1, np.int64)
    for band in range(index.bands):
        for _, _, begin, end in index.probes(band, asking):
            found = np.bincount(end - begin)
            size = max(len(found), len(counts))
            counts = np.pad(found, (0, size - len(found))) + np.pad(counts, (0, size - len(counts)))
    # As many hashes are compared with the k-th of a bucket as have a bucket of k or more.
    compared = np.cumsum(np.cumsum(counts[:0:-1])[::-1])
    if not len(compared) or compared[-1] <= budget:
        return None
    return max(1, int(np.searchsorted(compared, budget, side="right")))


def _compare(
    index: _Index, asking: np.ndarray | None, window: int | None, on_band: Callable[[], None]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield pairs within the distance, and their bits, as three int64 arrays; a pair may come again."""
    hashes = index.hashes if asking is None else asking
    for band in range(index.bands):
        for probe in index.probes(band, asking):
            for one, other in _candidates(probe, window):
                words = np.bitwise_count(hashes[one] ^ index.hashes[other])
                # Many times faster than a sum over an axis of 4.
                bits = words[:, 0].astype(np.int64) + words[:, 1] + words[:, 2] + words[:, 3]
                near = np.flatnonzero(bits <= index.max_distance)
                if len(near):
                    yield one[near], other[near], bits[near]
        on_band()


def _candidates(probe: _Probe, window: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of hashes to compare, as two int64 arrays of about a million."""
    rows, order, begin, end = probe
    lengths = end - begin if window is None else np.minimum(end - begin, window)
    asks = np.flatnonzero(lengths)
    rows, begin, lengths = rows[asks], begin[asks], lengths[asks]
    ends = np.cumsum(lengths)
    row = 0
    while row < len(rows):
        done = int(ends[row - 1]) if row else 0
        until = max(row + 1, int(np.searchsorted(ends, done + _CHUNK, side="right")))
        part = lengths[row:until]
        within = np.arange(int(ends[until - 1]) - done) - np.repeat(ends[row:until] - part - done, part)
        yield np.repeat(rows[row:until], part), order[np.repeat(begin[row:until], part) + within]
        row = until


class _Links:
    """The nearest node of each node, and their groups, from pairs in any order."""

    def __init__(self, nodes: _Nodes) -> None:
        self._nodes = nodes
        count = len(nodes.first)
        # (bits, first image) as one number, whose minimum is the nearest.
        self._best = np.full(count, _NONE)
        self._best_across = np.full(count, _NONE)
        self._roots = np.arange(count)

    def add(self, one: np.ndarray, other: np.ndarray, bits: np.ndarray) -> None:
        """Add pairs of nodes that are near.

        Args:
            one: int64 [P].
            other: int64 [P].
            bits: int64 [P].
        """
        nodes = self._nodes
        across = nodes.splits[one] != nodes.splits[other]
        for here, there in ((one, other), (other, one)):
            key = (bits << _SHIFT) + nodes.first[there]
            np.minimum.at(self._best, here, key)
            np.minimum.at(self._best_across, here[across], key[across])
        # Each round hangs the larger of two roots below the smallest that it meets.
        while (apart := (first := self._roots[one]) != (second := self._roots[other])).any():
            one, other = one[apart], other[apart]
            np.minimum.at(self._roots, np.maximum(first, second)[apart], np.minimum(first, second)[apart])
            while not np.array_equal(self._roots, flat := self._roots[self._roots]):
                self._roots = flat

    def result(self, count: int, *, complete: bool) -> NearDuplicates:
        """Return what was found for `count` images."""
        nodes, node = self._nodes, self._nodes.node
        # A copy is nearest, whatever else is near.
        copy = np.where(nodes.first[node] == nodes.images, nodes.second[node], nodes.first[node])
        best = np.where(copy >= 0, np.minimum(copy, self._best[node]), self._best[node])
        nearest, distances = _unpacked(best, nodes.images, count)
        nearest_across, distances_across = _unpacked(self._best_across[node], nodes.images, count)
        first = np.full(len(nodes.first), _NONE)
        np.minimum.at(first, self._roots, nodes.first)
        groups = np.arange(count)
        groups[nodes.images] = first[self._roots[node]]
        return NearDuplicates(
            nearest=nearest,
            distances=distances,
            nearest_across=nearest_across,
            distances_across=distances_across,
            groups=groups,
            complete=complete,
        )


def _unpacked(keys: np.ndarray, images: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nearest image and bits of `count` images from the packed numbers of those that were compared."""
    nearest, distances = np.full(count, -1), np.full(count, -1)
    found = keys != _NONE
    nearest[images[found]] = keys[found] & ((1 << _SHIFT) - 1)
    distances[images[found]] = keys[found] >> _SHIFT
    return nearest, distances
