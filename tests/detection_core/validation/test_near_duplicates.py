import itertools
import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.validation import near_duplicates
from detection_core.validation.hamming_index import band_count
from detection_core.validation.near_duplicates import find_near_duplicates, find_nearest_images
from detection_core.validation.perceptual_hash import HASH_BYTES, hash_distance, hash_image_file
from tests.detection_core.validation.pictures import drawing, jpeg, natural
from tests.support.cases import cases, refused
from tests.support.memory import memory_below


def random_hashes(count, seed=0):
    data = np.random.default_rng(seed).integers(0, 256, (count, HASH_BYTES), dtype=np.uint8)
    return [row.tobytes() for row in data]


def flipped(value, bits):
    number = int.from_bytes(value, "big")
    for bit in bits:
        number ^= 1 << bit
    return number.to_bytes(HASH_BYTES, "big")


def by_comparing_all(hashes, splits, max_distance):
    """The definition, slowly: nearest image, bits, the same across splits, and first of the group."""
    count = len(hashes)
    near = {}
    for i, j in itertools.combinations([i for i in range(count) if hashes[i] is not None], 2):
        bits = hash_distance(hashes[i], hashes[j])
        if bits <= max_distance:
            near[i, j] = near[j, i] = bits
    apart = {(i, j): bits for (i, j), bits in near.items() if splits[i] != splits[j]}
    nearest, across = (
        [min(((b, j) for (i, j), b in pairs.items() if i == k), default=(-1, -1)) for k in range(count)]
        for pairs in (near, apart)
    )
    groups = list(range(count))
    for _ in range(count):
        for i, j in near:
            groups[i] = groups[j] = min(groups[i], groups[j])
    return nearest, across, groups


CHANGED = st.tuples(st.integers(0, 2), st.lists(st.integers(0, 255), max_size=20, unique=True))


def drawn_hashes(drawn):
    """Some of three hashes with some bits changed, and none."""
    base = random_hashes(3)
    return [None if change is None else flipped(base[change[0]], change[1]) for change in drawn]


@settings(max_examples=60, deadline=None)
@given(
    drawn=st.lists(st.tuples(CHANGED | st.none() | CHANGED, st.integers(0, 2)), max_size=24),
    max_distance=st.sampled_from([0, 3, 15, 16, 24, 31]),
)
def test_the_index_finds_what_comparing_all_with_all_finds(drawn, max_distance):
    hashes, splits = drawn_hashes(change for change, _ in drawn), [split for _, split in drawn]
    found = find_near_duplicates(hashes, splits, max_distance=max_distance)
    nearest, across, groups = by_comparing_all(hashes, splits, max_distance)
    assert list(zip(found.distances.tolist(), found.nearest.tolist(), strict=True)) == nearest
    assert list(zip(found.distances_across.tolist(), found.nearest_across.tolist(), strict=True)) == across
    assert found.groups.tolist() == groups and found.complete
    assert found.images == sum(n >= 0 for _, n in nearest)
    assert found.images_across == sum(n >= 0 for _, n in across)


@settings(max_examples=60, deadline=None)
@given(
    drawn=st.tuples(*[st.lists(st.none() | CHANGED, max_size=12)] * 2),
    max_distance=st.sampled_from([0, 3, 12, 13, 24, 31]),
)
def test_the_index_finds_the_nearest_of_others_as_comparing_with_all_does(drawn, max_distance):
    hashes, others = map(drawn_hashes, drawn)
    ticks = []
    found = find_nearest_images(hashes, others, max_distance=max_distance, on_band=lambda: ticks.append(1))
    for image, value in enumerate(hashes):
        known = [(n, other) for n, other in enumerate(others) if None not in (value, other)]
        bits = [(hash_distance(value, other), number) for number, other in known]
        nearest = min((pair for pair in bits if pair[0] <= max_distance), default=(-1, -1))
        assert (found.distances[image], found.nearest[image]) == nearest
    assert found.complete and len(ticks) == band_count(max_distance)


@cases(0, 1, 15, 16, 17, 24, 30, 31)
def test_a_pair_is_found_wherever_its_bits_differ(*, distance):
    rng = np.random.default_rng(distance)
    for value in random_hashes(3):
        other = flipped(value, rng.choice(256, distance, replace=False).tolist())
        hashes = [value, *random_hashes(5, seed=9), other]
        found = find_near_duplicates(hashes, max_distance=near_duplicates.MAX_INDEXED_DISTANCE)
        assert found.pairs() == [(0, 6, distance)]


def test_pairs_come_once_and_are_found_in_nothing_and_among_very_many():
    a, b = random_hashes(2)
    hashes = [a, flipped(a, range(5)), b, flipped(b, [1]), a]
    found = find_near_duplicates(hashes, splits=[0, 1, 0, 0, 0], max_distance=10)
    assert found.pairs() == [(0, 4, 0), (2, 3, 1), (0, 1, 5)]
    assert found.pairs(across=True) == [(0, 1, 5), (1, 4, 5)]
    assert found.groups.tolist() == [0, 0, 2, 2, 0]
    hashes = random_hashes(30_000)
    for copy, original in ((21_000, 12), (29_999, 13)):
        hashes[copy] = flipped(hashes[original], range(0, 200, 10))
    begin = time.process_time()
    found = find_near_duplicates(hashes)
    assert time.process_time() - begin < 15  # 1 second on an idle core
    assert found.pairs() == [(12, 21_000, 20), (13, 29_999, 20)]
    assert found.complete
    for hashes, others in itertools.product(([], [None, None], random_hashes(1)), ([], [None])):
        assert find_nearest_images(hashes, others).nearest.tolist() == [-1] * len(hashes)
        found = find_near_duplicates(hashes)
        assert found.images == 0 and found.pairs() == [] and found.complete
        assert found.groups.tolist() == list(range(len(hashes)))
    assert 0 < near_duplicates.MAX_DISTANCE <= near_duplicates.MAX_INDEXED_DISTANCE
    refused(ValueError, "from 0 to 31", lambda: find_near_duplicates([], max_distance=32))


def test_memory_is_bounded_by_the_number_of_images():
    hashes = random_hashes(1)[0]
    rng = np.random.default_rng(0)
    scene = [flipped(hashes, rng.choice(256, 6, replace=False).tolist()) for _ in range(8000)]
    with memory_below(400 << 20):  # 32 million pairs are within the distance
        found = find_near_duplicates(scene, [i % 2 for i in range(8000)], budget=2_000_000)
    assert not found.complete
    assert found.images == found.images_across == 8000
    assert len(set(found.groups.tolist())) == 1


def test_different_pictures_are_not_taken_for_one_another():
    """The false positives of half a million pairs of pictures; see `MAX_DISTANCE` for more of them."""
    rng = np.random.default_rng(11)
    photos = [hash_image_file(jpeg(natural(rng, 64))) for _ in range(800)]
    drawings = [hash_image_file(jpeg(drawing(rng, 128))) for _ in range(600)]
    found = find_near_duplicates([*photos, *drawings])
    pairs = found.pairs()
    assert not [p for p in pairs if p[0] < len(photos)]
    # Drawings of two shapes may really be alike: at most one of 100,000 pairs.
    assert len(pairs) <= 600 * 599 / 2 / 100_000
