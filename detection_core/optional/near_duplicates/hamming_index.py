"""An index of hashes by Hamming distance.

It implements multi-index hashing (Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with Multi-Index
Hashing", CVPR 2012, https://arxiv.org/abs/1307.2982). A distance of d bits takes d / 2 + 1 bands. Two
hashes within it differ in at most one bit of some band. 24 bits take 13 bands of 19 or 20 bits. A hash is
then compared with the hashes in 20 or 21 buckets of each band.

faiss-cpu 1.15 (IndexBinaryMultiHash) takes four times as long for the same pairs of 200,000 hashes. The
number of its comparisons cannot be limited.
"""

from collections.abc import Callable, Iterator

import numpy as np

from detection_core.optional.near_duplicates.perceptual_hash import BITS, HASH_BYTES

MIN_BANDS = 13
"""Minimum number of bands: a table of at most 2^20 buckets fits in a processor's cache."""
HASH_WORDS = HASH_BYTES // 8
"""Number of 64-bit integers per hash."""

_CHUNK, _FEW = 1 << 20, 1 << 15

Probe = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""The queries, the index's hashes in the order of a band, and begin and end of each query's range."""


def band_count(max_distance: int) -> int:
    """Return the number of bands to find hashes within a distance."""
    return max(MIN_BANDS, max_distance // 2 + 1)


class HammingIndex:
    """Buckets of hashes, uint64 [M, 4], by the bits of each band."""

    def __init__(self, hashes: np.ndarray, max_distance: int) -> None:
        self.hashes, self.max_distance = hashes, max_distance
        self.bands = band_count(max_distance)
        # With more bands than differing bits, some band is equal in both.
        self._radius = int(max_distance >= self.bands)

    def probes(self, band: int, asking: np.ndarray | None = None) -> Iterator[Probe]:
        """Yield the comparisons of a band with queries, uint64 [Q, 4].

        None compares the index's hashes with each other, each pair once.
        """
        keys = _band_keys(self.hashes, band, self.bands)
        order = np.argsort(keys, kind="stable")
        bounds = _bounds_of(keys[order], _band_bits(band, self.bands))
        own = asking is None
        asked = keys[order] if asking is None else _band_keys(asking, band, self.bands)
        rows = order if own else np.arange(len(asked))
        begin, end = bounds(asked)
        yield rows, order, np.arange(1, len(order) + 1) if own else begin, end
        for bit in range(_band_bits(band, self.bands) if self._radius else 0):
            beside = asked ^ (1 << bit)
            begin, end = bounds(beside)
            # Of two hashes in the index, the one without the bit finds the other.
            yield rows, order, begin, np.where(beside > asked, end, begin) if own else end


def _bounds_of(keys: np.ndarray, bits: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return a function from keys to ranges (first, past the last) in sorted `keys`, int64 each."""
    if len(keys) > _FEW:
        ends = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=1 << bits))])
        return lambda asked: (ends[asked], ends[asked + 1])
    # For few keys, a binary search is cheaper than a table of all keys.
    return lambda asked: (
        np.asarray(np.searchsorted(keys, asked)),
        np.asarray(np.searchsorted(keys, asked, side="right")),
    )


def _band_bits(band: int, bands: int) -> int:
    return len(range(band, BITS, bands))


def _band_keys(hashes: np.ndarray, band: int, bands: int) -> np.ndarray:
    """Return the bits of a band as an integer, int64 [M].

    A band takes every `bands`-th bit, because neighbouring frequencies in a hash are correlated.
    """
    keys: np.ndarray = np.zeros(len(hashes), np.int64)
    for place, bit in enumerate(range(band, BITS, bands)):
        word, shift = divmod(bit, 64)
        keys |= ((hashes[:, word] >> np.uint64(shift)) & np.uint64(1)).astype(np.int64) << place
    return keys


def search_window(index: HammingIndex, asking: np.ndarray | None, budget: int) -> int | None:
    """Return the maximum number of comparisons per bucket that meets the budget; None: no limit."""
    counts: np.ndarray = np.zeros(1, np.int64)
    for band in range(index.bands):
        for _, _, begin, end in index.probes(band, asking):
            found = np.bincount(end - begin)
            size = max(len(found), len(counts))
            counts = np.pad(found, (0, size - len(found))) + np.pad(counts, (0, size - len(counts)))
    # The k-th hash of a bucket is compared with as many hashes as have a bucket of at least k.
    compared = np.cumsum(np.cumsum(counts[:0:-1])[::-1])
    if not len(compared) or compared[-1] <= budget:
        return None
    return max(1, int(np.searchsorted(compared, budget, side="right")))


def near_pairs(
    index: HammingIndex, asking: np.ndarray | None, window: int | None, on_band: Callable[[], None]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield pairs within the distance, and their bits, as three int64 arrays; pairs may repeat.

    `window` is the maximum number of a hash's comparisons per bucket; None means no limit.
    """
    hashes = index.hashes if asking is None else asking
    for band in range(index.bands):
        for probe in index.probes(band, asking):
            for one, other in candidates(probe, window):
                words = np.bitwise_count(hashes[one] ^ index.hashes[other])
                # Much faster than a sum over an axis of size 4.
                bits = words[:, 0].astype(np.int64) + words[:, 1] + words[:, 2] + words[:, 3]
                near = np.flatnonzero(bits <= index.max_distance)
                if len(near):
                    yield one[near], other[near], bits[near]
        on_band()


def candidates(probe: Probe, window: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of hashes to compare, as two int64 arrays of about a million; see `near_pairs`."""
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
