"""Near-identical images of a data set, found by their perceptual hashes without comparing all with all.

The index is multi-index hashing (Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with Multi-Index
Hashing", CVPR 2012, https://arxiv.org/abs/1307.2982): hashes are cut into 16 bands of 16 bits, and of two
hashes that differ in at most 31 bits some band differs in at most one bit. So an image is compared with those
in 17 buckets of each band, and where buckets are too full for that, as with the frames of a camera that
stands still, with as many of each bucket as fit the budget.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

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
"""Largest distance at which two hashes surely meet in a bucket."""

_BAND_BITS = 16
_BANDS = BITS // _BAND_BITS
_CHUNK = 1 << 20
_LEAST_BUDGET, _BUDGET_AN_IMAGE = 200_000_000, 3_000
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


def find_near_duplicates(
    hashes: Sequence[bytes | None],
    splits: Sequence[int] | None = None,
    *,
    max_distance: int = MAX_DISTANCE,
    budget: int | None = None,
) -> NearDuplicates:
    """Find near-identical images.

    100,000 different images take about 5 seconds, as many pictures of one scene 30, and some hundred bytes an
    image.

    Args:
        hashes: of the images, as `perceptual_hash` gives them; None for images that are not compared.
        splits: split of each image, as any number; None: all are of one.
        max_distance: bits in which the hashes of near-identical images differ at most, up to
            `MAX_INDEXED_DISTANCE`.
        budget: comparisons above which full buckets are searched in part; None: what takes about 30 seconds
            for 100,000 images.
    """
    if not 0 <= max_distance <= MAX_INDEXED_DISTANCE:
        raise ValueError(f"expected a distance from 0 to {MAX_INDEXED_DISTANCE} bits, found {max_distance}")
    nodes = _Nodes.of(hashes, splits)
    links = _Links(nodes)
    index = _Index(nodes.hashes, radius=int(max_distance >= _BANDS))
    window = index.window(budget or max(_LEAST_BUDGET, _BUDGET_AN_IMAGE * len(nodes.first)))
    for one, other in index.candidates(window):
        words = np.bitwise_count(nodes.hashes[one] ^ nodes.hashes[other]).astype(np.int64)
        bits = words[:, 0] + words[:, 1] + words[:, 2] + words[:, 3]  # many times faster than a sum over 4
        near = bits <= max_distance
        links.add(one[near], other[near], bits[near])
    return links.result(len(hashes), complete=window is None)


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
        data = np.frombuffer(b"".join(h for h in hashes if h is not None), np.uint8).reshape(-1, HASH_BYTES)
        # The hash comes first, so that splits are mixed where a part of a bucket is searched.
        rows = np.concatenate([data, split[:, np.newaxis].view(np.uint8).reshape(-1, 8)], axis=1)
        unique, first, node = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        node = node.reshape(-1)
        rest: np.ndarray = np.ones(len(images), bool)
        rest[first] = False
        second = np.full(len(unique), _NONE)
        np.minimum.at(second, node[rest], images[rest])
        return cls(
            images=images,
            node=node,
            hashes=np.ascontiguousarray(unique[:, :HASH_BYTES]).view(np.uint64),
            splits=split[first],
            first=images[first],
            second=np.where(second == _NONE, -1, second),
        )


class _Index:
    """Buckets of hashes by the bits of each band.

    Args:
        hashes: uint64 [M, 4].
        radius: bits, 0 or 1, in which the bands of two hashes may differ to be compared.
    """

    def __init__(self, hashes: np.ndarray, radius: int) -> None:
        # A band takes every 16th bit: the frequencies beside each other in a hash depend on each other.
        bits = np.unpackbits(hashes.view(np.uint8), axis=1).reshape(-1, _BAND_BITS, _BANDS)
        high, low = np.moveaxis(np.packbits(bits.transpose(0, 2, 1), axis=2).astype(np.int64), 2, 0)
        self._keys = high << 8 | low
        self._flips = (0, *(1 << bit for bit in range(_BAND_BITS) if radius))

    def window(self, budget: int) -> int | None:
        """Return with how many hashes of a bucket one is compared; None: with all."""
        lengths = sum(int((end - begin).sum()) for _, begin, end in self._probes())
        probes = _BANDS * len(self._flips) * max(1, len(self._keys))
        return None if lengths <= budget else max(1, budget // probes)

    def candidates(self, window: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pairs of hashes to compare, as two int64 arrays of about a million; a pair may come again."""
        for order, begin, end in self._probes():
            lengths = end - begin if window is None else np.minimum(end - begin, window)
            ends = np.cumsum(lengths)
            row = 0
            while row < len(order):
                done = int(ends[row - 1]) if row else 0
                until = max(row + 1, int(np.searchsorted(ends, done + _CHUNK, side="right")))
                part = lengths[row:until]
                within = np.arange(int(ends[until - 1]) - done) - np.repeat(
                    ends[row:until] - part - done, part
                )
                yield np.repeat(order[row:until], part), order[np.repeat(begin[row:until], part) + within]
                row = until

    def _probes(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the hashes in the order of a band, and from which to which place of it each is compared."""
        places = np.arange(len(self._keys))
        for band in range(_BANDS):
            order = np.argsort(self._keys[:, band], kind="stable")
            keys = self._keys[order, band]
            ends = np.cumsum(np.bincount(keys, minlength=1 << _BAND_BITS))
            for flip in self._flips:
                if not flip:
                    yield order, places + 1, ends[keys]
                    continue
                lower = (keys & flip) == 0  # one of the two finds the other
                end = ends[keys | flip]
                begin = ends[(keys | flip) - 1]
                yield order, begin, np.where(lower, end, begin)


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
        apart = self._roots[one] != self._roots[other]
        for pair in zip(one[apart].tolist(), other[apart].tolist(), strict=True):
            roots = [self._root(node) for node in pair]
            self._roots[max(roots)] = min(roots)
        # Paths of length one make the next comparison of roots exact.
        while apart.any() and not np.array_equal(self._roots, flat := self._roots[self._roots]):
            self._roots = flat

    def _root(self, node: int) -> int:
        while self._roots[node] != node:
            node = int(self._roots[node])
        return node

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
