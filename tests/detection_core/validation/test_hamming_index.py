import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.validation import hamming_index
from tests.support.cases import cases

DISTANCE = 24


def _scene(count):
    """Hashes that differ in 6 bits at most, in words of 64 bits."""
    rng = np.random.default_rng(1)
    bits: np.ndarray = np.tile(rng.integers(0, 2, 256, dtype=np.uint8), (count, 1))
    for row in bits:
        row[rng.choice(256, 3, replace=False)] ^= 1
    return np.packbits(bits, axis=1).view(np.uint64)


def _compared(index, asking, window):
    probes = (probe for band in range(index.bands) for probe in index.probes(band, asking))
    return sum(len(one) for probe in probes for one, _ in hamming_index.candidates(probe, window))


@settings(max_examples=20, deadline=None)
@given(budget=st.integers(1, 400_000), asks=st.booleans())
def test_a_budget_bounds_the_comparisons_and_is_used(budget, asks):
    scene = _scene(300)
    index, asking = hamming_index.HammingIndex(scene, DISTANCE), scene[:40] if asks else None
    window = hamming_index.search_window(index, asking, budget)
    if window is None:
        assert _compared(index, asking, None) <= budget
    else:
        assert _compared(index, asking, window) <= budget or window == 1
        assert _compared(index, asking, window + 1) > budget


@cases(0, 12, 13, 24, 31)
def test_the_bands_hold_every_bit_and_are_too_many_to_differ_twice_each(*, distance):
    index = hamming_index.HammingIndex(np.zeros((1, hamming_index.HASH_WORDS), np.uint64), distance)
    assert index.bands == hamming_index.band_count(distance) and 2 * index.bands > distance
    # Each bit of a hash changes the key of one band: a hash with it is not in the bucket of the band alone.
    others = np.zeros((256, hamming_index.HASH_WORDS), np.uint64)
    bits = np.arange(256)
    others[bits, bits // 64] = np.uint64(1) << (bits % 64).astype(np.uint64)
    first = [next(iter(index.probes(band, others))) for band in range(index.bands)]
    met = np.sum([end - begin for _, _, begin, end in first], axis=0)
    assert met.tolist() == [index.bands - 1] * 256


def test_of_different_hashes_few_are_compared_and_a_table_of_keys_changes_nothing(monkeypatch):
    hashes = np.random.default_rng(0).integers(0, 2**64, (20_000, hamming_index.HASH_WORDS), dtype=np.uint64)
    index = hamming_index.HammingIndex(hashes, DISTANCE)
    # 13 bands of 20.7 buckets, half of which for a pair, of 20,000 hashes in a million buckets.
    assert _compared(index, None, None) < 20_000 * 13 * 10.5 * 0.03
    assert list(hamming_index.near_pairs(index, None, None, hamming_index.ignore_band)) == []
    scene, found = _scene(60), []
    for few in (1_000, 10):
        monkeypatch.setattr(hamming_index, "_FEW", few)
        index = hamming_index.HammingIndex(scene, DISTANCE)
        probes = [probe for band in range(index.bands) for probe in index.probes(band, scene[:9])]
        found.append([(begin.tolist(), end.tolist()) for _, _, begin, end in probes])
    assert found[0] == found[1] and found[0]
