"""Checks for near-identical images by their perceptual hashes, without comparing all pairs.

The search is exact: every pair within the distance is compared. If very many images are alike, as frames of a
fixed camera are, the budget limits the comparisons of an image. `complete` is then False.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from detection_core.optional.near_duplicates.hamming_index import (
    HASH_WORDS,
    HammingIndex,
    band_count,
    near_pairs,
    search_window,
)
from detection_core.progress import Progress
from detection_core.validation.checks import EXAMPLES_LISTED, FindingList
from detection_core.validation.duplicates import Copies, Pair, pair_example

MAX_DISTANCE = 24
"""Maximum distance of near-identical images' hashes, in bits of 256.

Bits that an edit changes, measured on 120 photos and 60 drawings:

- compression, half or double size, less contrast: 0 to 10
- turning by EXIF orientation: 0 to 4
- brightness that clips: 0 to 20
- cutting 1 % off each side: 12 to 26, so a few crops are missed

False matches:

- none in 8 * 10^8 pairs of random pictures with the spectrum of natural ones. They differ in 128 bits on
  average, with a standard deviation of 8, and in at least 80.
- one in 1.1 * 10^6 pairs of drawings of one to four shapes on white.
- none in the 66,066 pairs of 364 blood smears; the one image that was taken twice is found.

Pictures of one scene that differ in a small object match on purpose: in two splits they leak.
"""

MAX_INDEXED_DISTANCE = 31
"""Largest distance that the search supports."""

_LEAST_BUDGET, _BUDGET_AN_IMAGE = 200_000_000, 1_000
_NONE = np.iinfo(np.int64).max
_SHIFT = 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class NearestImages:
    """The nearest other image of each image, by index.

    Attributes:
        nearest: int64 [N], the nearest image within the distance, the first in a tie; -1 for none.
        distances: int64 [N], its distance in bits; -1 for none.
        complete: whether every pair within the distance was compared. False if too many images are alike;
            counts are then lower bounds.
    """

    nearest: np.ndarray
    distances: np.ndarray
    complete: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class NearDuplicates(NearestImages):
    """The near-identical images of a data set.

    Attributes:
        groups: int64 [N], the first image of the group that near-identical pairs connect. An image without
            pairs has its own index.
    """

    groups: np.ndarray


def find_near_duplicates(
    hashes: Sequence[bytes | None],
    *,
    max_distance: int = MAX_DISTANCE,
    budget: int | None = None,
    on_band: Callable[[], None] = lambda: None,
) -> NearDuplicates:
    """Find near-identical images.

    A million different images take about 40 seconds on one core and 310 MB.

    Args:
        hashes: of the images, from `perceptual_hash`; None for images that are not compared.
        max_distance: maximum distance of near-identical images in bits, up to `MAX_INDEXED_DISTANCE`.
        budget: number of comparisons above which full buckets are searched in part. None: 1,000 per image; a
            million different images need a sixth of it.
        on_band: called after each of `band_count` bands.
    """
    nodes = _Nodes.of(hashes)
    # Pack (bits, first image) into one number; the minimum is the nearest.
    best, roots = np.full(len(nodes.first), _NONE), np.arange(len(nodes.first))
    complete, pairs = _search(nodes, None, max_distance, budget, on_band)
    for one, other, bits in pairs:
        for here, there in ((one, other), (other, one)):
            np.minimum.at(best, here, (bits << _SHIFT) + nodes.first[there])
        _link(roots, one, other)
    images, node = nodes.images, nodes.node
    # A copy is always the nearest.
    copy = np.where(nodes.first[node] == images, nodes.second[node], nodes.first[node])
    keys = np.where(copy >= 0, np.minimum(copy, best[node]), best[node])
    nearest, distances = _unpacked(keys, images, len(hashes))
    first, groups = np.full(len(nodes.first), _NONE), np.arange(len(hashes))
    np.minimum.at(first, roots, nodes.first)
    groups[images] = first[roots[node]]
    return NearDuplicates(nearest=nearest, distances=distances, groups=groups, complete=complete)


def find_nearest_images(
    hashes: Sequence[bytes | None],
    others: Sequence[bytes | None],
    *,
    max_distance: int = MAX_DISTANCE,
    budget: int | None = None,
    on_band: Callable[[], None] = lambda: None,
) -> NearestImages:
    """Find the images that are near-identical to one of others; arguments as in `find_near_duplicates`."""
    asked, known = _Nodes.of(hashes), _Nodes.of(others)
    best = np.full(len(asked.first), _NONE)
    complete, pairs = _search(known, asked.hashes, max_distance, budget, on_band)
    for one, other, bits in pairs:
        np.minimum.at(best, one, (bits << _SHIFT) + known.first[other])
    nearest, distances = _unpacked(best[asked.node], asked.images, len(hashes))
    return NearestImages(nearest=nearest, distances=distances, complete=complete)


@dataclasses.dataclass(frozen=True)
class _Nodes:
    """The distinct hashes, so that a thousand copies are not half a million pairs.

    `images` and `node` are int64 [K]: the compared images and their nodes. Per node there are `hashes`,
    uint64 [M, 4], and the `first` and `second` image, int64 [M]; -1 for none.
    """

    images: np.ndarray
    node: np.ndarray
    hashes: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, hashes: Sequence[bytes | None]) -> "_Nodes":
        images = np.array([i for i, h in enumerate(hashes) if h is not None], np.int64)
        words = np.frombuffer(b"".join(h for h in hashes if h is not None), np.uint64).reshape(-1, HASH_WORDS)
        # The sort is stable: equal hashes stay in the order of the images.
        order = np.lexsort(words.T[::-1])
        is_new: np.ndarray = np.ones(len(order), bool)
        is_new[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
        node: np.ndarray = np.empty(len(order), np.int64)
        node[order] = np.cumsum(is_new) - 1
        places = np.flatnonzero(is_new)
        first = order[places]
        has_second = np.append(np.diff(places), len(order) - places[-1:]) > 1
        second = np.full(len(places), -1)
        second[has_second] = images[order[places[has_second] + 1]]
        return cls(images=images, node=node, hashes=words[first], first=images[first], second=second)


def _search(
    known: _Nodes,
    asking: np.ndarray | None,
    max_distance: int,
    budget: int | None,
    on_band: Callable[[], None],
) -> tuple[bool, Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Return whether all pairs were compared, and the near pairs from `near_pairs`."""
    if not 0 <= max_distance <= MAX_INDEXED_DISTANCE:
        raise ValueError(f"expected a distance from 0 to {MAX_INDEXED_DISTANCE} bits, found {max_distance}")
    index, asked = HammingIndex(known.hashes, max_distance), known.hashes if asking is None else asking
    window = search_window(index, asking, budget or max(_LEAST_BUDGET, _BUDGET_AN_IMAGE * len(asked)))
    return window is None, near_pairs(index, asking, window, on_band)


def _link(roots: np.ndarray, one: np.ndarray, other: np.ndarray) -> None:
    """Join the groups of pairs of nodes, int64 [P] each; `roots` has a node of each node's group.

    Union-find: each round links the larger of two roots to the smallest that it meets.
    """
    while (apart := (first := roots[one]) != (second := roots[other])).any():
        one, other = one[apart], other[apart]
        np.minimum.at(roots, np.maximum(first, second)[apart], np.minimum(first, second)[apart])
        while not np.array_equal(roots, flat := roots[roots]):
            roots[:] = flat


def _unpacked(keys: np.ndarray, images: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Unpack nearest image and bits of the compared images, for `count` images."""
    nearest, distances = np.full(count, -1), np.full(count, -1)
    found = keys != _NONE
    nearest[images[found]] = keys[found] & ((1 << _SHIFT) - 1)
    distances[images[found]] = keys[found] >> _SHIFT
    return nearest, distances


Hashes = Mapping[str, Sequence[bytes | None]]
_TRAIN = "train"
_FINDINGS = {
    "near_duplicates": "look like another image of it; they add little, but increase the weight of their"
    " scene: keep some of them",
    "near_leakage": "look like one of train, so metrics will be too optimistic: keep images of one scene in"
    " the same split",
}
"""Check to what is wrong with its images."""


def check_near_copies(hashes: Hashes, copies: Copies, findings: FindingList) -> None:
    """Look for near-identical images, except `copies` with the same file, which another check reports."""
    searches = [("near_duplicates", split, split) for split in hashes]
    if hashes.get(_TRAIN):
        searches += [("near_leakage", split, _TRAIN) for split in hashes if split != _TRAIN]
    searches = [search for search in searches if findings.is_on(search[0]) and hashes[search[1]]]
    with Progress("look alike", total=len(searches) * band_count(MAX_DISTANCE), unit="band") as progress:
        for check, split, other in searches:
            here = hashes[split]
            near: NearestImages
            if split == other:
                near = find_near_duplicates(here, on_band=progress.advance)
                found = near.groups != np.arange(len(here))
            else:
                near = find_nearest_images(here, hashes[other], on_band=progress.advance)
                found = near.nearest >= 0
            known = {pair.record for pair in copies.get((split, other), ())}
            records = [record for record in np.flatnonzero(found).tolist() if record not in known]
            findings.add_share(
                check,
                split,
                len(records),
                len(here),
                f"images of {split} {_FINDINGS[check]}",
                more="" if near.complete else " or more",
                examples=[
                    pair_example(
                        Pair(split=split, record=n, other_split=other, other_record=int(near.nearest[n])),
                        f"{near.distances[n]} of 256 bits differ",
                    )
                    for n in records[:EXAMPLES_LISTED]
                ],
            )
