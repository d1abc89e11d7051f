"""Splits given as folders or lists of images, for any format."""

import collections
import dataclasses
import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from detection_core.datasets import layouts
from detection_core.datasets.annotated_images import AnnotatedImage, Annotations, Rejected, Rejection
from detection_core.datasets.image_files import ImageFiles
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing

KEY = "images"
"""The only key of this kind of location: folders or image lists, separated by `|`."""

_OR = "|"

# Enough for two million images.
_MAX_LIST_BYTES, _MAX_LINES = 1 << 27, 1 << 22
_TRAIN_AND_EVAL = "trainval"
_HEAD = 1 << 16
_MOST_LISTS = 50
_NOTES = re.compile(r"(.*\S)\s+-?[01]")
"""A line of a per-class image set in Pascal VOC: -1, 0 or 1 follows the name."""


def part_names(location: Any) -> list[str] | None:
    """Return the folders and lists of a location, None for others; ConfigError if the value is invalid."""
    if not isinstance(location, Mapping) or set(location) != {KEY}:
        return None
    names = location[KEY].split(_OR) if isinstance(location[KEY], str) else []
    if not all(names) or not names:
        raise ConfigError(
            f"expected a folder of images or a list of them, found {shorten(location[KEY])}", where="splits"
        )
    return names


def locate_part(root: str, names: Sequence[str]) -> list[str]:
    """Return the full paths of folders and lists. Raises DataError if one is missing."""
    paths = [files.join(root, name) for name in names]
    for path in paths:
        if not files.exists(path):
            raise DataError(
                "expected a folder or a list of images, found nothing; correct data.splits", where=path
            )
    return paths


def read_list(path: str) -> list[str]:
    """Return the nonempty lines of an image list, without white space around them.

    Raises:
        DataError: if the list cannot be read, or has too many bytes or lines.
    """
    try:
        text = files.read_user_text(path, what="list of images", longest=_MAX_LIST_BYTES)
    except ConfigError as error:
        raise DataError(error.message, where=path) from error
    count = text.count("\n") + text.count("\r")
    if count > _MAX_LINES:
        raise DataError(
            f"expected a list of images of at most {_MAX_LINES:,} lines, found {count:,}", where=path
        )
    return list(filter(None, map(str.strip, text.splitlines())))


def plain_line(line: str) -> str:
    """Return the name in a line of an image set, without the flag of a per-class set."""
    match = _NOTES.fullmatch(line)
    return match[1] if match else line


def keep_part(found: Annotations, root: str, names: Sequence[str]) -> Annotations:
    """Keep the annotations of the images in the given folders or lists; see `part_names`.

    A rejection is dropped only if its image is known to belong to another split. The images of `found` are
    read together with those of the result.

    Raises:
        DataError: if a folder or list is missing.
    """
    part = _Part(root, locate_part(root, names))
    kept = dataclasses.replace(found, images=(), rejected=[], unannotated=[])

    def images() -> Iterator[AnnotatedImage]:
        yield from filter(part.holds, found.images)
        # Complete after the last image.
        kept.rejected.extend(rejection for rejection in found.rejected if part.may_hold(rejection))
        kept.unannotated.extend(filter(part.holds, found.unannotated))

    return dataclasses.replace(kept, images=images())


class _Part:
    """The images in some folders and lists."""

    def __init__(self, root: str, paths: Sequence[str]) -> None:
        self._available = ImageFiles(root)
        self._folders = tuple(f"{path.rstrip('/')}/" for path in paths if files.is_dir(path))
        lines = (line for path in paths if not files.is_dir(path) for line in read_list(path))
        self._listed = {path for line in lines if (path := self._path(line))}

    def holds(self, image: AnnotatedImage) -> bool:
        return self._has(image.path)

    def may_hold(self, rejection: Rejection) -> bool:
        # A record may also be a number, which is not an image's name.
        record = rejection.record if layouts.is_image(rejection.record) else ""
        names = (rejection.file, record, layouts.stem(rejection.file))
        path = next(filter(None, map(self._path, filter(None, names))), "")
        return not path or self._has(path)

    def _has(self, path: str) -> bool:
        return path in self._listed or path.startswith(self._folders)

    def _path(self, line: str) -> str:
        """Return the full path of the image in a line, "" if there is none."""
        for name in _names_in(line):
            try:
                if self._available.has(name):
                    return self._available.path(self._available.find(name))
            except Rejected:
                continue
        return ""


def _names_in(line: str) -> Iterable[str]:
    """Return possible names in a line: a list may name the annotation file or add a label."""
    return dict.fromkeys((line, plain_line(line), line.split(maxsplit=1)[0]))


def find_parts(listing: FolderListing, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the location of each split that image lists or folders define, for a set without splits.

    Returns:
        Empty unless there are a training split and another one.
    """
    parts = _listed_parts(listing) or _folder_parts(listing, names)
    in_order = {
        split: parts[split] for split in (layouts.TRAIN, layouts.EVAL, layouts.TEST) if split in parts
    }
    return in_order if layouts.TRAIN in parts and len(parts) > 1 else {}


def _listed_parts(listing: FolderListing) -> dict[str, dict[str, Any]]:
    images = {name for path in listing.paths() if layouts.is_image(path) for name in _ends(path)}
    # A text file with an image's name is its label file.
    named = [(path, layouts.stem(posixpath.basename(path))) for path in listing.paths(".txt", ".lst")]
    likely = [path for path, name in named if _split_of_list(name) and name not in images]
    lists: dict[str, str] = {}
    # Names that hold more than the split, as those of per-class sets do, come last.
    is_plain = {path: layouts.stem(posixpath.basename(path)).isalpha() for path in likely}
    for path in sorted(likely, key=lambda path: (not is_plain[path], path.count("/")))[:_MOST_LISTS]:
        split = _split_of_list(layouts.stem(posixpath.basename(path)))
        if split not in lists and _is_list(listing, path, images):
            lists[split] = path
    both = lists.pop(_TRAIN_AND_EVAL, "")
    if both and layouts.TEST in lists and not {layouts.TRAIN, layouts.EVAL} <= set(lists):
        lists = {layouts.TRAIN: both, layouts.EVAL: lists[layouts.TEST]}
    divides = layouts.TRAIN in lists and len(lists) > 1
    return {split: {KEY: path} for split, path in lists.items()} if divides else {}


def _split_of_list(name: str) -> str:
    return _TRAIN_AND_EVAL if name.lower() == _TRAIN_AND_EVAL else layouts.split_word(name)


def _is_list(listing: FolderListing, path: str, images: set[str]) -> bool:
    """Return whether most lines of a file name images."""
    head, tail = listing.ends(path, _HEAD)
    lines = [line.strip() for line in head.decode(errors="replace").splitlines()]
    lines = [line for line in (lines[:-1] if tail else lines) if line]
    known = sum(
        any(not images.isdisjoint(_ends(layouts.name_here(n))) for n in _names_in(line)) for line in lines
    )
    return bool(lines) and 2 * known > len(lines)


def _ends(path: str) -> tuple[str, str]:
    base = posixpath.basename(path)
    return base, layouts.stem(base) if layouts.is_image(base) else base


def _folder_parts(listing: FolderListing, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    folders: dict[str, dict[str, None]] = collections.defaultdict(dict)
    alike: dict[str, list[str]] = collections.defaultdict(list)
    for path in filter(layouts.is_image, listing.paths()):
        if split := layouts.split_of_path(posixpath.dirname(path)):
            above = itertools.accumulate(path.split("/")[:-1], posixpath.join)
            folders[split][next(folder for folder in above if layouts.split_of_path(folder) == split)] = None
        for end in set(_ends(path)):
            alike[end].append(path)
    annotated = set()
    for name in map(layouts.name_here, names):
        base, bare = _ends(name)
        likely = layouts.longest_tails(name, alike[base] if base in alike else alike.get(bare, ()))
        annotated.add(layouts.split_of_path(posixpath.dirname(likely[0])) if len(likely) == 1 else "")
    return {split: {KEY: _OR.join(places)} for split, places in folders.items() if split in annotated}
