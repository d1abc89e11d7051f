"""Images that look alike: their hashes, the index of these, and what is found in and across splits."""

import hashlib
import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from detection_core.data.image_header import ImageFault
from detection_core.optional.near_duplicates import hamming_index, near_duplicates, perceptual_hash
from detection_core.optional.near_duplicates.hamming_index import band_count
from detection_core.optional.near_duplicates.near_duplicates import (
    MAX_DISTANCE,
    check_near_copies,
    find_near_duplicates,
    find_nearest_images,
)
from detection_core.optional.near_duplicates.perceptual_hash import (
    HASH_BYTES,
    SIDE,
    HashList,
    hash_image_file,
)
from detection_core.validation import duplicates
from detection_core.validation.duplicates import Pair, check_duplicates, short_digest
from tests.detection_core.validation.samples import (
    ALIKE,
    drawing,
    findings_of,
    found_by,
    jpeg,
    natural,
    scaled,
)
from tests.support.cases import cases, refused
from tests.support.dataset_files import encoded, exif
from tests.support.memory import memory_below

DISTANCE = 24


def hash_distance(one, other):
    """Bits in which two hashes differ."""
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_count()


def pairs_of(found):
    """Each image with its nearest one and their bits; each pair once, nearest first."""
    pairs = {
        (int(found.distances[i]), *sorted((i, int(found.nearest[i]))))
        for i in np.flatnonzero(found.nearest >= 0).tolist()
    }
    return [(first, second, bits) for bits, first, second in sorted(pairs)]


CHANGED = st.tuples(st.integers(0, 2), st.lists(st.integers(0, 255), max_size=20, unique=True))
_NAMES = st.lists(st.sampled_from(["", "a", "b", "c", "d", "e"]), max_size=12)


@given(hashes=st.lists(st.none() | st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES)))
def test_it_holds_what_a_list_holds(hashes):
    kept = HashList()
    for found in hashes:
        kept.append(found)
    assert len(kept) == len(hashes) and list(kept) == hashes
    assert kept[1:] == hashes[1:] and kept[-2:] == hashes[-2:]
    for place in range(-len(hashes), len(hashes)):
        assert kept[place] == hashes[place]
    with pytest.raises(IndexError):
        kept[len(hashes)]


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
    assert np.sum([end - begin for _, _, begin, end in first], axis=0).tolist() == [index.bands - 1] * 256


def test_of_different_hashes_few_are_compared_and_a_table_of_keys_changes_nothing(monkeypatch):
    hashes = np.random.default_rng(0).integers(0, 2**64, (20_000, hamming_index.HASH_WORDS), dtype=np.uint64)
    index = hamming_index.HammingIndex(hashes, DISTANCE)
    # 13 bands of 20.7 buckets, half of which for a pair, of 20,000 hashes in a million buckets.
    assert _compared(index, None, None) < 20_000 * 13 * 10.5 * 0.03
    assert list(hamming_index.near_pairs(index, None, None, lambda: None)) == []
    scene, found = _scene(60), []
    for few in (1_000, 10):
        monkeypatch.setattr(hamming_index, "_FEW", few)
        index = hamming_index.HammingIndex(scene, DISTANCE)
        probes = [probe for band in range(index.bands) for probe in index.probes(band, scene[:9])]
        found.append([(begin.tolist(), end.tolist()) for _, _, begin, end in probes])
    assert found[0] == found[1] and found[0]


@cases(natural, drawing)
def test_a_picture_that_was_stored_anew_keeps_its_hash(*, draw):
    rng = np.random.default_rng(7)
    for picture in (draw(rng) for _ in range(8)):
        before = hash_image_file(jpeg(picture, 95))
        after = {name: hash_image_file(change(picture)) for name, change in ALIKE.items()}
        far = {name: hash_distance(before, value) for name, value in after.items()}
        assert max(far.values()) <= MAX_DISTANCE, far


def test_other_pictures_have_other_hashes_of_their_cosine_transform():
    rng = np.random.default_rng(3)
    one, other = natural(rng), natural(rng)
    mirrored = one.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    hashes = [hash_image_file(jpeg(p)) for p in (one, other, mirrored, one.rotate(90))]
    for i, first in enumerate(hashes):
        for second in hashes[i + 1 :]:
            assert hash_distance(first, second) > 3 * MAX_DISTANCE
    for level in (0, 255, 130):  # a flat picture has none
        noise = np.clip(np.random.default_rng(0).normal(level, 4.0, (200, 300, 3)), 0, 255)
        assert hash_image_file(jpeg(Image.fromarray(noise.astype(np.uint8)))) is None, level
    refused(ImageFault, "", lambda: hash_image_file(jpeg(natural(np.random.default_rng(0)))[:300]))
    refused(ImageFault, "", hash_image_file, b"GIF89a")
    refused(ValueError, "64 x 64", lambda: perceptual_hash.hash_picture(np.zeros((32, 64))))
    # A wave of one frequency alone has one coefficient, which is above the median; others are rounded to 0.
    place = (np.arange(SIDE) + 0.5) / SIDE
    wave = 128 + 60 * np.outer(np.cos(3 * np.pi * place), np.cos(5 * np.pi * place))
    bits = np.unpackbits(np.frombuffer(perceptual_hash.hash_picture(wave), np.uint8))
    assert bits.sum() == 1 and perceptual_hash.lowest_frequencies()[int(bits.argmax())] == 3 * SIDE + 5


@cases((3, Image.Transpose.ROTATE_180), (6, Image.Transpose.ROTATE_90), (8, Image.Transpose.ROTATE_270))
def test_a_photo_that_the_camera_turned_has_the_hash_of_the_upright_one(*, orientation, turn):
    picture = natural(np.random.default_rng(5)).resize((160, 120))
    upright = hash_image_file(jpeg(picture))
    turned = jpeg(picture.transpose(turn), exif=exif(orientation))
    assert hash_distance(upright, hash_image_file(turned)) <= MAX_DISTANCE
    assert hash_distance(upright, hash_image_file(jpeg(picture.transpose(turn)))) > 3 * MAX_DISTANCE


@cases("L", "RGB", "RGBA", "P", "1", "CMYK", "I;16")
def test_every_kind_of_picture_has_a_hash(*, mode):
    picture = natural(np.random.default_rng(2))
    wide = np.asarray(picture.convert("L")).astype(np.uint16) * 257
    converted = Image.fromarray(wide) if mode == "I;16" else picture.convert(mode)
    found = hash_image_file(encoded(converted, "JPEG" if mode == "CMYK" else "PNG"))
    assert found is not None and len(found) == perceptual_hash.HASH_BYTES == perceptual_hash.BITS // 8
    assert hash_distance(found, hash_image_file(jpeg(picture))) <= MAX_DISTANCE


def random_hashes(count, seed=0):
    data = np.random.default_rng(seed).integers(0, 256, (count, HASH_BYTES), dtype=np.uint8)
    return [row.tobytes() for row in data]


def flipped(value, bits):
    number = int.from_bytes(value, "big")
    for bit in bits:
        number ^= 1 << bit
    return number.to_bytes(HASH_BYTES, "big")


def by_comparing_all(hashes, max_distance):
    """The definition, slowly: nearest image and bits, and first of the group."""
    count = len(hashes)
    near = {}
    for i, j in itertools.combinations([i for i in range(count) if hashes[i] is not None], 2):
        bits = hash_distance(hashes[i], hashes[j])
        if bits <= max_distance:
            near[i, j] = near[j, i] = bits
    nearest = [min(((b, j) for (i, j), b in near.items() if i == k), default=(-1, -1)) for k in range(count)]
    groups = list(range(count))
    for _ in range(count):
        for i, j in near:
            groups[i] = groups[j] = min(groups[i], groups[j])
    return nearest, groups


def drawn_hashes(drawn):
    """Some of three hashes with some bits changed, and none."""
    base = random_hashes(3)
    return [None if change is None else flipped(base[change[0]], change[1]) for change in drawn]


@settings(max_examples=60, deadline=None)
@given(
    drawn=st.lists(CHANGED | st.none() | CHANGED, max_size=24),
    max_distance=st.sampled_from([0, 3, 15, 16, 24, 31]),
)
def test_the_index_finds_what_comparing_all_with_all_finds(drawn, max_distance):
    hashes = drawn_hashes(drawn)
    found = find_near_duplicates(hashes, max_distance=max_distance)
    nearest, groups = by_comparing_all(hashes, max_distance)
    assert list(zip(found.distances.tolist(), found.nearest.tolist(), strict=True)) == nearest
    assert found.groups.tolist() == groups and found.complete


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
        assert pairs_of(found) == [(0, 6, distance)]


def test_pairs_come_once_and_are_found_in_nothing_and_among_very_many():
    a, b = random_hashes(2)
    hashes = [a, flipped(a, range(5)), b, flipped(b, [1]), a]
    found = find_near_duplicates(hashes, max_distance=10)
    assert pairs_of(found) == [(0, 4, 0), (2, 3, 1), (0, 1, 5)]
    assert found.groups.tolist() == [0, 0, 2, 2, 0]
    hashes = random_hashes(30_000)
    for copy, original in ((21_000, 12), (29_999, 13)):
        hashes[copy] = flipped(hashes[original], range(0, 200, 10))
    begin = time.process_time()
    found = find_near_duplicates(hashes)
    assert time.process_time() - begin < 15  # 1 second on an idle core
    assert pairs_of(found) == [(12, 21_000, 20), (13, 29_999, 20)] and found.complete
    for hashes, others in itertools.product(([], [None, None], random_hashes(1)), ([], [None])):
        assert find_nearest_images(hashes, others).nearest.tolist() == [-1] * len(hashes)
        found = find_near_duplicates(hashes)
        assert pairs_of(found) == [] and found.complete
        assert found.groups.tolist() == list(range(len(hashes)))
    assert 0 < near_duplicates.MAX_DISTANCE <= near_duplicates.MAX_INDEXED_DISTANCE
    refused(ValueError, "from 0 to 31", lambda: find_near_duplicates([], max_distance=32))


def test_memory_is_bounded_by_the_number_of_images():
    hashes = random_hashes(1)[0]
    rng = np.random.default_rng(0)
    scene = [flipped(hashes, rng.choice(256, 6, replace=False).tolist()) for _ in range(8000)]
    with memory_below(400 << 20):  # 32 million pairs are within the distance
        found = find_near_duplicates(scene, budget=2_000_000)
    assert not found.complete and (found.nearest >= 0).all()
    assert len(set(found.groups.tolist())) == 1


def test_different_pictures_are_not_taken_for_one_another():
    """The false positives of half a million pairs of pictures; see `MAX_DISTANCE` for more of them."""
    rng = np.random.default_rng(11)
    photos = [hash_image_file(jpeg(natural(rng, 64))) for _ in range(800)]
    found = find_near_duplicates([*photos, *[hash_image_file(jpeg(drawing(rng, 128))) for _ in range(600)]])
    pairs = pairs_of(found)
    assert not [p for p in pairs if p[0] < len(photos)]
    # Drawings of two shapes may really be alike: at most one of 100,000 pairs.
    assert len(pairs) <= 600 * 599 / 2 / 100_000


def _hash(number):
    return hash_image_file(jpeg(natural(np.random.default_rng(number))))


def _smaller(number):
    return hash_image_file(jpeg(scaled(natural(np.random.default_rng(number)), 0.5), 60))


def _found(hashes, copies=None, **given):
    return found_by(check_near_copies, hashes, copies or {}, **given)


TRAIN = [_hash(number) for number in range(10)]


def test_images_that_look_alike_are_found_and_copies_or_what_is_off_not_reported():
    found = _found({"train": TRAIN, "eval": [_hash(20), _smaller(3), _hash(21), None]})
    assert list(found) == ["near_leakage:eval"]
    finding = found["near_leakage:eval"]
    assert finding.measured == 0.25
    assert [(e.record, e.other.split, e.other.record) for e in finding.examples] == [(1, "train", 3)]
    found = _found({"train": [*TRAIN, _smaller(0), _smaller(1)]})
    assert list(found) == ["near_duplicates:train"]
    finding = found["near_duplicates:train"]
    assert (finding.count, [(e.record, e.other.record) for e in finding.examples]) == (2, [(10, 0), (11, 1)])
    pair = Pair(split="eval", record=0, other_split="train", other_record=3)
    assert _found({"train": TRAIN, "eval": [_hash(3)]}, {("eval", "train"): [pair]}) == {}
    assert "near_leakage:eval" in _found({"train": TRAIN, "eval": [_hash(3)]})
    hashes = {"train": [*TRAIN, _smaller(0), _smaller(1)], "eval": [_hash(3)]}
    off = {"severity": "off"}
    assert _found(hashes, near_leakage=off, near_duplicates=off) == {}
    assert _found({"train": [], "eval": []}) == {}


def _digests(names):
    return [short_digest(hashlib.sha256(name.encode()).digest() if name else b"") for name in names]


def _pair(split, record, other):
    return Pair(split=split, record=record, other_split="train", other_record=other)


@given(_NAMES, _NAMES)
def test_shared_and_repeated_images_are_those_of_a_slow_search(here, there):
    shared = [_pair("eval", i, there.index(n)) for i, n in enumerate(here) if n and n in there]
    assert duplicates.shared_images("eval", _digests(here), "train", _digests(there)) == shared
    repeated = [_pair("train", i, here.index(n)) for i, n in enumerate(here) if n and here.index(n) != i]
    assert duplicates.shared_images("train", _digests(here), "train", _digests(here)) == repeated


def test_leakage_and_repetition_are_found_with_the_records_to_look_at():
    digests = {"train": _digests("abcdefghij"), "eval": _digests("xxaz")}
    leaked, repeated = findings_of(check_duplicates, digests, leakage={"severity": "stop"}).findings()
    assert (leaked.id, leaked.severity, leaked.measured) == ("leakage:eval", "stop", 0.25)
    assert [(e.record, e.other.split, e.other.record) for e in leaked.examples] == [(2, "train", 0)]
    assert (repeated.id, repeated.count) == ("duplicates:eval", 1)
    alone = {"train": _digests("abc"), "eval": _digests("de"), "test": _digests("")}
    assert findings_of(check_duplicates, alone).findings() == []
