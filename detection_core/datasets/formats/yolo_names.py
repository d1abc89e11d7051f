"""The files that tell a YOLO data set's classes and splits: data.yaml, obj.data, classes.txt."""

from __future__ import annotations

import collections
import dataclasses
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from detection_core.datasets.annotated_images import Rejected, checked_text
from detection_core.errors import DataError, shorten
from detection_core.storage.folder_listing import FolderListing

MOST_BYTES = 1 << 22
"""Of such a file: those of sets with 9,000 classes have 300 KB."""

LISTS = ("classes.txt", "obj.names", "classes.names", "predefined_classes.txt", "_darknet.labels")
"""Names of files with a class a line."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class YoloSet:
    """A YOLO data set as its own file describes it.

    Attributes:
        file: its path in the listing.
        names: class index to name.
        base: what `path` says; "" where the file does not.
        splits: key in the file to the folders and lists of images that it names.
        keypoints: how many an object has, and whether x and y alone or with a visibility; (0, 0) for none.
        keypoint_names: class index to names, for what the file names.
    """

    file: str
    names: Mapping[int, str]
    base: str = ""
    splits: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    keypoints: tuple[int, int] = (0, 0)
    keypoint_names: Mapping[int, Sequence[str]] = dataclasses.field(default_factory=dict)


def read_set(listing: FolderListing, file: str) -> YoloSet:
    """Read the file of a YOLO data set.

    Raises:
        DataError: when it cannot be read, or does not say what is expected.
    """
    head, tail = listing.ends(file, MOST_BYTES)
    where = listing.path(file)
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise DataError(f"expected text in UTF-8, found other text ({e}); save it anew", where=where) from e
    if not text.strip() or tail:
        raise DataError(f"expected class names in a file of up to {MOST_BYTES:,} bytes", where=where)
    if file.lower().endswith((".yaml", ".yml")):
        return _from_yaml(file, text, where)
    if file.lower().endswith(".data"):
        return _from_darknet(listing, file, text)
    return YoloSet(file=file, names=_names(text.rstrip().splitlines(), where))


# Knows no tag but those of plain values. libyaml's is twenty times as fast, and every wheel has it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_NESTED = 50


def _load_plain(text: str) -> object:
    """Parse YAML without aliases, with which a text can grow without end, and without deep nesting."""
    depth = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_NESTED:
            raise yaml.YAMLError(f"nested more than {_MOST_NESTED} deep")
    return yaml.load(text, _LOADER)


def _from_yaml(file: str, text: str, where: str) -> YoloSet:
    try:
        content = _load_plain(text)
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        said = " ".join(str(e).split())
        raise DataError(f"expected a data.yaml of plain values, found: {said:.300}", where=where) from e
    if not isinstance(content, Mapping):
        raise DataError(f"expected a data.yaml with names and train, found {shorten(content)}", where=where)
    names = content.get("names")
    if names is None and type(content.get("nc")) is int and 0 < content["nc"] < 100_000:
        names = [f"class_{number}" for number in range(content["nc"])]
    found = _names(names, where)
    if type(content.get("nc")) is int and content["nc"] != len(found):
        raise DataError(
            f"expected nc to be the number of names, found nc {content['nc']} and {len(found)} names",
            where=where,
        )
    splits = {
        key: _texts(content[key], key, where)
        for key in ("train", "val", "test", "minival")
        if content.get(key)
    }
    return YoloSet(
        file=file,
        names=found,
        base=str(content.get("path") or ""),
        splits=splits,
        keypoints=_keypoint_shape(content.get("kpt_shape"), where),
        keypoint_names=_keypoint_names(content.get("kpt_names"), where),
    )


def _names(value: object, where: str) -> dict[int, str]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping) or not value:
        raise DataError(f"expected names as a list or a mapping, found {shorten(value)}", where=where)
    found: dict[int, str] = {}
    for number, name in value.items():
        index = int(number) if isinstance(number, str) and re.fullmatch("[0-9]{1,18}", number) else number
        text = str(name) if type(name) in (int, float) else name
        try:
            checked_text(text, "a class name")
        except Rejected as e:
            raise DataError(f"{e.detail}; give every class a name", where=where) from e
        if type(index) is not int or not 0 <= index < 1_000_000 or index in found:
            raise DataError(f"expected names by class index from 0 on, found {shorten(number)}", where=where)
        found[index] = text.strip()
    if len(set(found.values())) < len(found):
        doubles = sorted(name for name, count in collections.Counter(found.values()).items() if count > 1)
        raise DataError(f"expected unique class names, found {', '.join(doubles[:5])} twice", where=where)
    return found


def _texts(value: object, key: str, where: str) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    texts = [text for text in listed if isinstance(text, str)]
    if len(texts) < len(listed):
        raise DataError(f"expected {key} as a path or a list of paths, found {shorten(value)}", where=where)
    return texts


def _keypoint_shape(value: object, where: str) -> tuple[int, int]:
    if value is None:
        return 0, 0
    match value:
        case [int(count), (2 | 3) as dims] if 0 < count <= 10_000:
            return count, dims
    raise DataError(
        f"expected kpt_shape as a number of keypoints and 2 or 3, found {shorten(value)}", where=where
    )


def _keypoint_names(value: object, where: str) -> dict[int, list[str]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DataError(f"expected kpt_names as lists by class index, found {shorten(value)}", where=where)
    for names in value.values():
        if not isinstance(names, list) or len({str(name) for name in names}) < len(names):
            raise DataError(
                f"expected kpt_names as lists of unique names, found {shorten(names)}", where=where
            )
    return {number: [str(name) for name in names] for number, names in value.items() if type(number) is int}


def _from_darknet(listing: FolderListing, file: str, text: str) -> YoloSet:
    """Read an obj.data, whose lines are `key = value`."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    content = {key.strip(): value.strip() for key, _, value in pairs}
    beside = [
        posixpath.join(posixpath.dirname(file), posixpath.basename(content.get("names", ""))),
        posixpath.normpath(content.get("names", "")),
    ]
    known = [path for path in beside if path in set(listing.paths())]
    if not known:
        raise DataError(
            f"expected the file of class names {content.get('names', '')!r}, found none",
            where=listing.path(file),
        )
    splits = {
        key: [content[word]] for key, word in (("train", "train"), ("val", "valid")) if content.get(word)
    }
    return YoloSet(file=file, names=read_set(listing, known[0]).names, splits=splits)
