"""Running numbers in the names of google/automl's name-based checkpoints.

The stem, its layers and the transposed convolutions of the segmentation head have no name of their own there,
and are numbered through a process: a second network in it has `stem_1/conv2d_5` where the first has
`stem/conv2d`. Its own restoring then misses them.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_STEM = re.compile(
    r"(?P<network>[^/]+)/stem(?:_\d+)?/(?P<layer>conv2d|tpu_batch_normalization)(?:_\d+)?/(?P<rest>.+)"
)
_SEGMENTATION = re.compile(r"(?P<scope>segmentation_head(?:_\d+)?)/(?P<rest>.+)")
_TRANSPOSED = re.compile(r"conv2d_transpose(?:_(?P<number>\d+))?/(?P<rest>.+)")


class _Stored(NamedTuple):
    """A name in a checkpoint, and the name that it stands for."""

    meant: str
    stored: str


def running_names(names: Iterable[str]) -> dict[str, list[str]]:
    """Find the names that stand in a checkpoint with other running numbers.

    Args:
        names: the checkpoint's.

    Returns:
        Name in a checkpoint of the only network of its process -> the names that could be it; the name itself
        where the checkpoint has it and it is not that of another layer. Names that no network has under
        another one are left out.
    """
    known = set(names)
    candidates: dict[str, list[str]] = collections.defaultdict(list)
    found = [*_stems(known), *_segmentations(known)]
    for meant, stored in found:
        candidates[meant].append(stored)
    moved = {stored for meant, stored in found if meant != stored}
    exact = {meant: [meant] if meant in stored else stored for meant, stored in candidates.items()}
    # A name that another layer has taken is not its own any more: the fourth of 3, 4, 5, 6 is 6, not 3.
    return {name: [] for name in moved} | exact


def _stems(names: Iterable[str]) -> Iterator[_Stored]:
    for name in names:
        if match := _STEM.fullmatch(name):
            yield _Stored(f"{match['network']}/stem/{match['layer']}/{match['rest']}", name)


def _segmentations(names: Iterable[str]) -> Iterator[_Stored]:
    matches = [match for match in map(_SEGMENTATION.fullmatch, names) if match]
    first = _first_numbers(matches)
    for match in matches:
        rest = match["rest"]
        if transposed := _TRANSPOSED.fullmatch(rest):
            number = int(transposed["number"] or 0) - first[match["scope"]]
            rest = f"conv2d_transpose{f'_{number}' if number else ''}/{transposed['rest']}"
        yield _Stored(f"segmentation_head/{rest}", match[0])


def _first_numbers(matches: Iterable[re.Match[str]]) -> Mapping[str, int]:
    """Return the number that a head's convolutions begin with; 0 where some are missing between them."""
    numbers: dict[str, set[int]] = collections.defaultdict(set)
    for match in matches:
        if transposed := _TRANSPOSED.fullmatch(match["rest"]):
            numbers[match["scope"]].add(int(transposed["number"] or 0))
    return {
        scope: min(found) if max(found) - min(found) + 1 == len(found) else 0
        for scope, found in numbers.items()
    }
