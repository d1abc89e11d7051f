"""A serialised `tf.train.Example` of others, with what had to be changed in it and everything else kept."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from detection_core.data.encode import serialise_features
from detection_core.data.example_wire import Span, find_features, parse_feature

_MASK = "image/object/mask"
_MASKS = frozenset({_MASK, f"{_MASK}/weight"})
_KEYPOINTS = "image/object/keypoint/"
_LABELS = "image/class/"
_NEEDED = frozenset(
    {
        "image/encoded",
        "image/filename",
        "image/height",
        "image/object/class/label",
        "image/object/class/text",
        "image/source_id",
        "image/width",
    }
)
"""Keys that every record is to have. What it means that another is missing is known."""

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def merge_example(
    original: bytes, made: Mapping[str, bytes], size: tuple[int, int], *, turned: bool
) -> bytes:
    """Return a record with the features that were made anew, if they say something else than its own.

    Args:
        original: the record, whose features were checked.
        made: key to the serialised feature, as ingest makes them of what is in the record.
        size: columns and rows of the image in `made`.
        turned: the image is another one, so that masks have to be those in `made`.

    Returns:
        The bytes of `original` themselves, where nothing had to be changed.

    Raises:
        ValueError: when `original` is no example, or has masks as numbers that would have to be turned.
    """
    if serialise_features(made) == original:  # as ingest wrote it before
        return original
    places = find_features(original)
    masks = _values(original, places[_MASK]) if _MASK in places else []
    if turned and any(kind is not bytes for kind, _ in masks):
        raise ValueError("masks as numbers, in a turned image; store them as PNG")
    kept = not turned and all(kind is not bytes or _is_png(mask, size) for kind, mask in masks)
    changed = {
        key: feature
        for key, feature in made.items()
        if not (key in _MASKS and kept)
        and not (key.startswith(_LABELS) and key in places)
        and not _is_same(original, places.get(key), feature)
        and (key in places or key in _NEEDED or key in _MASKS)
    }
    if any(key.startswith(_KEYPOINTS) for key in changed):  # they are one table
        changed |= {key: feature for key, feature in made.items() if key.startswith(_KEYPOINTS)}
    if not changed:
        return original
    features = {key: original[at.begin : at.end] for key, at in places.items()}
    return serialise_features({**features, **changed})


def _is_same(original: bytes, at: Span | None, feature: bytes) -> bool:
    if at is not None and original[at.begin : at.end] == feature:
        return True
    own = _values(original, at) if at is not None else []
    return own == _values(feature, Span(0, len(feature)))


def _values(data: bytes, at: Span) -> list[tuple[type, Any]]:
    """Return the values of a feature with their types, as 1 and 1.0 are equal."""
    return [
        (bytes, data[value.begin : value.end]) if isinstance(value, Span) else (type(value), value)
        for value in parse_feature(data, at)
    ]


def _is_png(mask: bytes, size: tuple[int, int]) -> bool:
    """Tell whether a mask is a PNG file of the image's size, which every decoder takes."""
    return mask.startswith(_PNG_SIGNATURE) and mask[16:24] == struct.pack(">II", *size)
