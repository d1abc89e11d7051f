"""The files that tell a YOLO data set's classes and splits: data.yaml, obj.data, classes.txt."""

from __future__ import annotations

import collections
import dataclasses
import io
import itertools
import posixpath
import re
from collections.abc import Mapping, Sequence

from detection_core.bounded.limits import MAX_KEYPOINTS, MAX_TEXT_BYTES
from detection_core.bounded.plain_yaml import parse_yaml
from detection_core.data.label_map import MAX_CLASS_ID
from detection_core.datasets.annotated_images import Rejected, checked_text
from detection_core.errors import DataError, shorten
from detection_core.storage.folder_listing import FolderListing

_MOST_PATHS = 1_000
"""Folders and lists of images of a split."""

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
    text, where = _read_text(listing, file), listing.path(file)
    if file.lower().endswith((".yaml", ".yml")):
        return _from_yaml(file, text, where)
    if file.lower().endswith(".data"):
        return _from_darknet(listing, file, text)
    return YoloSet(file=file, names=_names(_lines(text), where))


def _read_text(listing: FolderListing, file: str) -> str:
    head, tail = listing.ends(file, MAX_TEXT_BYTES)
    where = listing.path(file)
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise DataError(
            f"expected text in UTF-8, found other text ({e}); save it as UTF-8", where=where
        ) from e
    if not text.strip() or tail:
        raise DataError(f"expected class names in a file of up to {MAX_TEXT_BYTES:,} bytes", where=where)
    return text


def _lines(text: str) -> list[str]:
    """Return the lines of a text, up to one more than there can be classes."""
    lines = io.StringIO(text.rstrip(), newline=None)
    return [line.rstrip("\n") for line in itertools.islice(lines, MAX_CLASS_ID + 1)]


def _from_yaml(file: str, text: str, where: str) -> YoloSet:
    content = parse_yaml(text, where, error=DataError)
    if not isinstance(content, Mapping):
        raise DataError(f"expected a data.yaml with names and train, found {shorten(content)}", where=where)
    names = content.get("names")
    if names is None and type(content.get("nc")) is int and 0 < content["nc"] <= MAX_CLASS_ID:
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
        if type(index) is not int or not 0 <= index < MAX_CLASS_ID or index in found:
            raise DataError(f"expected names by class index from 0 on, found {shorten(number)}", where=where)
        found[index] = text.strip()
    if len(set(found.values())) < len(found):
        doubles = sorted(name for name, count in collections.Counter(found.values()).items() if count > 1)
        raise DataError(f"expected unique class names, found {', '.join(doubles[:5])} twice", where=where)
    return found


def _texts(value: object, key: str, where: str) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    texts = [text for text in listed if isinstance(text, str)]
    if len(texts) < len(listed) or len(texts) > _MOST_PATHS:
        raise DataError(
            f"expected {key} as a path or a list of paths, up to {_MOST_PATHS:,}, found {shorten(value)}",
            where=where,
        )
    return texts


def _keypoint_shape(value: object, where: str) -> tuple[int, int]:
    if value is None:
        return 0, 0
    match value:
        case [int(count), (2 | 3) as dims] if 0 < count <= MAX_KEYPOINTS:
            return count, dims
    raise DataError(
        f"expected kpt_shape as a number of keypoints, up to {MAX_KEYPOINTS}, and 2 or 3, found"
        f" {shorten(value)}",
        where=where,
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
    known = [path for path in beside if path in listing.known and path not in listing.folders]
    if not known:
        raise DataError(
            f"expected the file of class names {content.get('names', '')!r}, found none",
            where=listing.path(file),
        )
    splits = {
        key: [content[word]] for key, word in (("train", "train"), ("val", "valid")) if content.get(word)
    }
    # As lines, whatever it is called: a file may name itself.
    lines = _lines(_read_text(listing, known[0]))
    return YoloSet(file=file, names=_names(lines, listing.path(known[0])), splits=splits)
