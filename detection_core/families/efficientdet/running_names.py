"""Match running numbers in the names of google/automl's name-based checkpoints.

The stem, its layers and the transposed convolutions of the segmentation head have no fixed names. They are
numbered per process: the first network has `stem/conv2d`, a second one `stem_1/conv2d_5`. google/automl
itself does not find these on restore.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_STEM, _STEM_LAYERS = "stem", ("conv2d", "tpu_batch_normalization")
_SEGMENTATION, _TRANSPOSED = "segmentation_head", "conv2d_transpose"


class _Stored(NamedTuple):
    """The name in the first network of a process, and the name stored in the checkpoint."""

    meant: str
    stored: str


def running_names(names: Iterable[str]) -> dict[str, list[str]]:
    """Find names that a checkpoint stores with different running numbers.

    Returns:
        Name in the first network of a process -> the stored names that may match it. An exact match is the
        only one, unless it is another layer's name. Names without running numbers are left out.
    """
    known = set(names)
    candidates: dict[str, list[str]] = collections.defaultdict(list)
    found = [*_stems(known), *_segmentations(known)]
    for meant, stored in found:
        candidates[meant].append(stored)
    moved = {stored for meant, stored in found if meant != stored}
    exact = {meant: [meant] if meant in stored else stored for meant, stored in candidates.items()}
    # A stored name may belong to another layer: the fourth of 3, 4, 5, 6 is 6, not 3.
    return {name: [] for name in moved} | exact


def _number(name: str, base: str) -> int | None:
    """Return the running number of a name: 0 for `base` itself, 2 for `base_2`; None for another name."""
    if name == base:
        return 0
    number = name.removeprefix(f"{base}_")
    is_number = number.isascii() and number.isdecimal() and len(number) < 19
    return int(number) if number != name and is_number else None


def _stems(names: Iterable[str]) -> Iterator[_Stored]:
    for name in names:
        network, *inner = name.split("/", 3)
        if len(inner) != 3 or _number(inner[0], _STEM) is None:
            continue
        for layer in _STEM_LAYERS:
            if _number(inner[1], layer) is not None:
                yield _Stored(f"{network}/{_STEM}/{layer}/{inner[2]}", name)


class _InHead(NamedTuple):
    """A name below a segmentation head: scope, number of the transposed convolution, and the rest."""

    stored: str
    scope: str
    number: int | None
    rest: str


def _in_heads(names: Iterable[str]) -> Iterator[_InHead]:
    for name in names:
        scope, _, rest = name.partition("/")
        if _number(scope, _SEGMENTATION) is None or not rest:
            continue
        layer, _, parameter = rest.partition("/")
        number = _number(layer, _TRANSPOSED) if parameter else None
        yield _InHead(name, scope, number, rest if number is None else parameter)


def _segmentations(names: Iterable[str]) -> Iterator[_Stored]:
    found = list(_in_heads(names))
    first = _first_numbers(found)
    for stored, scope, number, rest in found:
        offset = None if number is None else number - first[scope]
        layer = "" if offset is None else f"{_TRANSPOSED}_{offset}/" if offset else f"{_TRANSPOSED}/"
        yield _Stored(f"{_SEGMENTATION}/{layer}{rest}", stored)


def _first_numbers(found: Iterable[_InHead]) -> Mapping[str, int]:
    """Return the first number of each head's convolutions; 0 if there are gaps between them."""
    numbers: dict[str, set[int]] = collections.defaultdict(set)
    for each in found:
        if each.number is not None:
            numbers[each.scope].add(each.number)
    return {
        scope: min(found) if max(found) - min(found) + 1 == len(found) else 0
        for scope, found in numbers.items()
    }
