"""Finds YOLO data: data.yaml or the list of classes, and the images of each split."""

import collections
import dataclasses
import io
import itertools
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from detection_core.bounded.limits import MAX_KEYPOINTS
from detection_core.bounded.plain_yaml import parse_yaml
from detection_core.data.label_map import MAX_CLASS_ID
from detection_core.datasets.annotated_images import Rejected, checked_text
from detection_core.datasets.image_parts import read_list
from detection_core.datasets.layouts import RATIOS, Layout, group_by_split, is_image, name_splits, stem
from detection_core.errors import DataError, shorten
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

LOOKS_FOR = "YOLO: a data.yaml (or obj.data, classes.txt) with class names, and a .txt of boxes an image"

_SPLITS = {"train": "train", "val": "eval", "test": "test"}
_LINE_BYTES = 4096
_SAMPLE = 5
_MOST_FOLDERS = 100


def find(listing: FolderListing) -> Layout | None:
    """Find the YOLO data set in a folder; DataError for unusable data files, or labels without classes."""
    file = find_file(listing)
    if not file:
        return None
    found = read_set(listing, file)
    locations = _locations(listing, found)
    splits = name_splits(locations)
    used = locations.values() if splits != RATIOS else [{"names": file, "images": "."}]
    images = [path for where in used for path in images_of(listing, found, where)]
    labels = labels_of(listing, images)
    if not labels:
        return None
    divided = f", divided into {', '.join(splits)}" if splits != RATIOS else ""
    counted = f"{len(images)} images, {len(labels)} label files"
    return Layout(
        format="yolo",
        path=listing.root,
        splits=splits,
        evidence=f"{file} with {len(found.names)} classes, {counted}{divided}",
        images=len(images),
    )


def find_file(listing: FolderListing) -> str:
    """Return the file with the classes, "" if there is none; DataError for label files without it."""
    kinds = (
        [path for path in listing.paths(".yaml", ".yml") if _has(listing, path, b"names", b"train")],
        [path for path in listing.paths(".data") if _has(listing, path, b"names", b"train")],
        [path for path in listing.paths() if posixpath.basename(path) in LISTS],
    )
    file = next((path for kind in kinds for path in sorted(kind, key=lambda path: path.count("/"))), "")
    if not file and _has_labels(listing):
        raise DataError(
            "expected the class names of the YOLO label files, found none; write them to classes.txt, one a"
            " line, by index",
            where=listing.root,
        )
    return file


def images_of(listing: FolderListing, found: "YoloSet", location: Mapping[str, str]) -> list[str]:
    """Return a split's image paths in the order of the listing, without duplicates; see `yolo.locate`.

    Raises:
        DataError: if the split's folders or lists are missing.
    """
    if "split" not in location:
        return [path for path in listing.paths() if is_image(path) and _is_below(path, location["images"])]
    if location["split"] not in found.splits:
        raise DataError(
            f"expected the split {location['split']!r}, found {', '.join(found.splits) or 'none'}",
            where=listing.path(found.file),
        )
    paths: dict[str, None] = {}
    places = [place_of(listing, found, text) for text in found.splits[location["split"]]]
    for place in dict.fromkeys(places):
        paths |= dict.fromkeys(_images_at(listing, place))
    return list(paths)


def place_of(listing: FolderListing, found: "YoloSet", text: str) -> str:
    """Return the folder or file of a listing for a path in data.yaml.

    A path is relative to `path`, to the file, or to a folder of the machine that wrote the file. It may also
    be absolute on that machine. No path leads out of the listing.

    Raises:
        DataError: if nothing matches.
    """
    here = posixpath.dirname(found.file)
    bases = [posixpath.join(here, found.base), here, ""]
    climbing = text.removeprefix("../")
    guesses = [posixpath.join(base, name) for base in bases for name in (text, climbing)]
    tails = _tails(text.replace("\\", "/").strip("/"))
    guesses += [posixpath.join(base, tail) for tail in tails[1:] for base in (here, "")]
    for guess in guesses:
        path = posixpath.normpath(guess)
        path = "" if path == "." else path
        if path in listing.known:
            return path
    raise DataError(
        f"expected {shorten(text)} below {listing.root}, found nothing; correct it",
        where=listing.path(found.file),
    )


def _tails(path: str) -> list[str]:
    """Return a path and its tails without the first folders; of a very deep path, only itself."""
    parts = path.split("/", _MOST_FOLDERS)
    return ["/".join(parts[at:]) for at in range(len(parts))] if len(parts) <= _MOST_FOLDERS else [path]


def _images_at(listing: FolderListing, place: str) -> Iterable[str]:
    if place in listing.folders:
        return [path for path in listing.paths() if is_image(path) and _is_below(path, place)]
    if is_image(place):
        return [place]
    # A text file of images; missing ones by the names in the file.
    here, known = posixpath.dirname(place), {path for path in listing.paths() if is_image(path)}
    return [_known(line.replace("\\", "/"), here, known) for line in read_list(listing.path(place))]


def _known(line: str, here: str, known: set[str]) -> str:
    guesses = [posixpath.join(base, tail) for tail in _tails(line.strip("/")) for base in (here, "")]
    found = (path for path in map(posixpath.normpath, guesses) if path in known)
    return next(found, line)


def labels_of(listing: FolderListing, images: Iterable[str]) -> dict[str, str]:
    """Return image to label file, for images that have one.

    The label file has the image's name. It lies in the folder `labels` next to `images`, or next to the
    image.
    """
    known = {*listing.paths(".txt"), *listing.folders_named(".txt")}  # folders go to quarantine
    found = {}
    for image in images:
        folders = image.split("/")
        guesses = [f"{stem(image)}.txt"]
        for word in ("JPEGImages", "images"):
            if word in folders[:-1]:
                at = len(folders) - 2 - folders[-2::-1].index(word)
                guesses.insert(0, f"{stem('/'.join([*folders[:at], 'labels', *folders[at + 1 :]]))}.txt")
        label = next((path for path in guesses if path in known), "")
        if label:
            found[image] = label
    return found


def _locations(listing: FolderListing, found: "YoloSet") -> dict[str, dict[str, str]]:
    if found.splits:
        places: dict[str, list[str]] = {}
        for key in [key for key in _SPLITS if key in found.splits]:
            try:
                places[key] = [place_of(listing, found, text) for text in found.splits[key]]
            except DataError:
                if key != "test":  # data.yaml often names it and the download lacks it
                    raise
        if places.get("val") == places.get("train"):
            places.pop("val", None)
        return {_SPLITS[key]: {"data": found.file, "split": key} for key in places}
    with_images = dict.fromkeys(posixpath.dirname(path) for path in listing.paths() if is_image(path))
    by_split = group_by_split(with_images)
    folders = {split: sorted(paths, key=len) for split, paths in by_split.items() if split}
    return {split: {"names": found.file, "images": paths[0]} for split, paths in folders.items()}


def _is_below(path: str, folder: str) -> bool:
    return folder in ("", ".") or path.startswith(f"{folder}/")


def _has(listing: FolderListing, path: str, *words: bytes) -> bool:
    head, _ = listing.ends(path, 1 << 20)
    return all(word in head for word in words)


def _has_labels(listing: FolderListing) -> bool:
    """Return whether images have text files with the same name and rows of numbers."""
    images = [path for path in listing.paths() if is_image(path)]
    for label in list(labels_of(listing, images[:1000]).values())[:_SAMPLE]:
        head, _ = listing.ends(label, _LINE_BYTES)
        words = head.splitlines()[0].split() if head.strip() else []
        if len(words) >= 5 and all(word.replace(b".", b"").replace(b"e-", b"").isdigit() for word in words):
            return True
    return False


_MOST_PATHS = 1_000
"""Image folders and lists of a split."""

LISTS = ("classes.txt", "obj.names", "classes.names", "predefined_classes.txt", "_darknet.labels")
"""Names of files with one class per line."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class YoloSet:
    """A YOLO data set, as described by its data file.

    Attributes:
        file: its path in the listing.
        names: class index to name.
        base: value of `path`; "" if missing.
        splits: key in the file to its image folders and lists.
        keypoints: number per object, and 2 for x, y or 3 with visibility; (0, 0) for none.
        keypoint_names: class index to names, if the file has them.
    """

    file: str
    names: Mapping[int, str]
    base: str = ""
    splits: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    keypoints: tuple[int, int] = (0, 0)
    keypoint_names: Mapping[int, Sequence[str]] = dataclasses.field(default_factory=dict)


def read_set(listing: FolderListing, file: str) -> YoloSet:
    """Read the data file of a YOLO data set. Raises DataError if it cannot be read or is malformed."""
    text, where = _read_text(listing, file), listing.path(file)
    if file.lower().endswith((".yaml", ".yml")):
        return _from_yaml(file, text, where)
    if file.lower().endswith(".data"):
        return _from_darknet(listing, file, text)
    return YoloSet(file=file, names=_names(_lines(text), where))


def _read_text(listing: FolderListing, file: str) -> str:
    head, tail = listing.ends(file, files.MAX_TEXT_BYTES)
    where = listing.path(file)
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise DataError(
            f"expected text in UTF-8, found other text ({e}); save it as UTF-8", where=where
        ) from e
    if not text.strip() or tail:
        raise DataError(
            f"expected class names in a file of up to {files.MAX_TEXT_BYTES:,} bytes", where=where
        )
    return text


def _lines(text: str) -> list[str]:
    """Return the lines of a text, at most one more than the maximum number of classes."""
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
    """Read an obj.data, with lines `key = value`."""
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
    # Read it as lines, whatever its suffix: the file may name itself.
    lines = _lines(_read_text(listing, known[0]))
    return YoloSet(file=file, names=_names(lines, listing.path(known[0])), splits=splits)
