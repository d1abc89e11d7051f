"""The layout of a data set: its files, the splits in their names, and the splits of settings."""

import collections
import dataclasses
import hashlib
import itertools
import posixpath
import random
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing, list_folder

T = TypeVar("T")

TRAIN, EVAL, TEST = "train", "eval", "test"
RATIOS = {TRAIN: 0.8, EVAL: 0.2}
"""Default ratios for a set without splits."""

IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".heic", ".heif",
    ".avif", ".mpo", ".ppm", ".pgm",
)  # fmt: skip
"""Suffixes of image files; reading decides which of them can be used."""

_SPLIT_WORDS = {
    **dict.fromkeys(("train", "training", "trn"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "validate", "eval", "evaluation", "dev", "minival"), EVAL),
    **dict.fromkeys(("test", "testing"), TEST),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """A data set found in a folder.

    Attributes:
        format: a key of `readers.READERS`.
        path: value for `data.path`: the searched folder, or the set's folder inside it.
        splits: value for `data.splits`: split to its annotations, relative to `path`; or to its fraction, for
            a set without splits.
        evidence: the files that identify the set, in one line.
        images: number of listed image files.
        names: of some annotated images, for a set without splits.
    """

    format: str
    path: str
    splits: Mapping[str, Any]
    evidence: str
    images: int = 0
    names: Sequence[str] = ()


def list_data_set(root: str, *, bounded: bool = False) -> FolderListing:
    """List a data set's folder, also on an object store, as `list_folder`; DataError if it does not exist."""
    try:
        return list_folder(root, bounded=bounded)
    except OSError as e:
        reason = e.strerror or str(e)
        raise DataError(
            f"expected the folder of a data set, found none: {reason}; correct the path", where=root
        ) from e


def split_word(text: str) -> str:
    """Return the split in a file or folder name, "" if it contains none or several."""
    words = {_SPLIT_WORDS[word] for word in re.split("[^a-z]+", text.lower()) if word in _SPLIT_WORDS}
    return words.pop() if len(words) == 1 else ""


def split_of_path(path: str) -> str:
    """Return the split in a path; the last part with a split counts."""
    return next(filter(None, map(split_word, reversed(path.split("/")))), "")


def group_by_split(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the paths of each split; the key is "" for paths without one."""
    groups: collections.defaultdict[str, list[str]] = collections.defaultdict(list)
    for path in paths:
        groups[split_of_path(path)].append(path)
    return dict(groups)


def name_splits(locations: Mapping[str, Any]) -> dict[str, Any]:
    """Return `data.splits` for the locations of a set's splits, or ratios if it has none.

    Without a split `eval`, the test split is called `eval`, as settings expect.
    """
    held_out = {name: where for name, where in locations.items() if name in (EVAL, TEST)}
    if TRAIN not in locations or not held_out:
        return dict(RATIOS)
    if EVAL not in held_out:
        held_out = {EVAL: held_out[TEST]}
    return {TRAIN: locations[TRAIN], **held_out}


def folder_in(root: str, name: str) -> str:
    """Return the path of a folder in a data set; "." and "" mean the data set's root."""
    return root if name in ("", ".") else files.join(root, name)


def spread(items: Sequence[T], most: int) -> Sequence[T]:
    """Return at most this many items, evenly spread from the first to the last."""
    if len(items) <= most:
        return items
    return [items[place * (len(items) - 1) // max(1, most - 1)] for place in range(most)]


class Reservoir(Generic[T]):
    """A uniform sample of a stream (Vitter's algorithm R), the same in every run."""

    def __init__(self, size: int) -> None:
        self.kept: list[T] = []
        self.seen = 0
        self._size, self._random = size, random.Random(0)

    def add(self, item: T) -> None:
        """Add an item of the stream."""
        self.seen += 1
        if len(self.kept) < self._size:
            self.kept.append(item)
        elif (place := self._random.randrange(self.seen)) < self._size:
            self.kept[place] = item


def stem(path: str) -> str:
    """Return a path without its suffix."""
    return posixpath.splitext(path)[0]


def name_here(name: str) -> str:
    """Return an image's name without a drive, host, scheme, root or parent folders.

    The separators of the result are slashes.
    """
    parts = re.sub(r"^([A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]+://)", "", name.replace("\\", "/")).split("/")
    if ".." in parts:
        parts = posixpath.normpath("/".join(parts)).split("/")
    return "/".join(itertools.dropwhile(lambda part: part in ("", ".", ".."), parts))


def longest_tails(name: str, paths: Iterable[str]) -> list[str]:
    """Return the paths that share the most folders with a name, counted from its end."""
    folders = unicodedata.normalize("NFC", name).split("/")[-2::-1]
    shared: dict[str, int] = {}
    for path in paths:
        others = unicodedata.normalize("NFC", path).split("/")[-2::-1]
        shared[path] = len(posixpath.commonprefix([folders, others]))
    most = max(shared.values(), default=0)
    return [path for path, count in shared.items() if count == most]


def find_image_folder(
    listing: FolderListing, names: Sequence[str], split: str = "", beside: str = ""
) -> str | None:
    """Return the folder of a listing that image names are relative to; None if no image is found.

    A name in missing folders is matched by its last part; a name without suffix matches any suffix. If no
    folder holds all images that are found, return the common parent of their folders. Ties go to the folder
    of `split`, then to the folder `beside`.
    """
    names = list(map(name_here, names))
    places: dict[str, list[str]] = collections.defaultdict(list)
    wanted = {posixpath.basename(name) for name in names}
    bare = {name for name in wanted if not is_image(name)}
    for folder, here in listing.folders.items():
        for name in wanted.intersection(here):
            places[name].append(posixpath.join(folder, name))
        for name in bare.intersection(map(stem, filter(is_image, here))) if bare else ():
            places[name].append(posixpath.join(folder, name))
    exact: collections.Counter[str] = collections.Counter()
    alike: collections.Counter[str] = collections.Counter()
    begins: list[list[str]] = []
    for name in names:
        found = [place for place in places[posixpath.basename(name)] if f"/{place}".endswith(f"/{name}")]
        exact.update(here := [place.removesuffix(name).rstrip("/") for place in found])
        if not found:
            likely = longest_tails(name, places[posixpath.basename(name)])
            alike.update(here := list(map(posixpath.dirname, likely)))
        begins.append(here)

    def rank(folder: str) -> tuple[int, int, bool, bool, int]:
        of_split = bool(split) and split_of_path(folder) == split
        return exact[folder], alike[folder], of_split, folder == beside, -len(folder)

    best = max(sorted({*exact, *alike}), key=rank, default=None)
    if best is None:
        return None
    return posixpath.commonpath([best, *(here[0] for here in begins if here and best not in here)])


def is_image(name: str) -> bool:
    """Return whether a file name has an image's suffix."""
    return name.lower().endswith(IMAGE_SUFFIXES)


def name_folder(folder: str) -> str:
    """Return the name of a folder in messages."""
    return f"{folder}/" if folder not in ("", ".") else "the folder itself"


def count_kinds(listing: FolderListing, most: int = 8) -> str:
    """Count the files of each suffix in each folder, the most frequent first."""
    kinds: collections.Counter[tuple[str, str]] = collections.Counter()
    for folder, names in listing.folders.items():
        for name in names:
            kinds[posixpath.splitext(name)[1].lower(), folder] += 1
    said = [
        f"{count} {suffix or 'files without suffix'} in {name_folder(folder)}"
        for (suffix, folder), count in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    ]
    more = [f"and files in {len(said) - most} more places"] if len(said) > most else []
    return ", ".join([*said[:most], *more]) or "nothing"


def count_images(listing: FolderListing, folders: Iterable[str]) -> int:
    """Count the image files in and below folders of a listing; "." is its root."""
    above = tuple(folders)
    return sum(
        sum(map(is_image, names))
        for folder, names in listing.folders.items()
        if any(at in (".", "", folder) or folder.startswith(f"{at}/") for at in above)
    )


_NAME = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*")


@dataclasses.dataclass(frozen=True)
class CheckedSplits:
    """The splits of a data set, sorted by name, so that their order in the settings makes no difference.

    Attributes:
        ratios: split name to its fraction of the images; empty for splits with locations.
        locations: split name to the location of its annotations; for splits by ratio, "" to None: all images
            are read together.
    """

    ratios: Mapping[str, float]
    locations: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """Split names in alphabetical order."""
        return list(self.ratios or self.locations)


def check_splits(splits: Mapping[str, Any]) -> CheckedSplits:
    """Check the `splits` parameter: split name to ratio, or split name to the location of its annotations.

    Raises:
        ConfigError: if there is none, ratios and locations are mixed, or the ratios do not add up to 1.
    """
    if not splits:
        raise ConfigError(f'expected {{"train": 0.8, ...}}, found {shorten(splits)}', where="splits")
    for name in splits:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"expected a name of letters, digits, _ and -, found {name!r}", where="splits")
    in_order = dict(sorted(splits.items()))
    ratios = [value for value in in_order.values() if _is_ratio(value)]
    if not ratios:
        return CheckedSplits({}, in_order)
    if len(ratios) < len(in_order):
        raise ConfigError(
            f"expected either ratios or locations, found both: {shorten(in_order)}", where="splits"
        )
    if not (all(0 < ratio <= 1 for ratio in ratios) and abs(sum(ratios) - 1) < 1e-6):
        raise ConfigError(
            f"expected ratios above 0 that add up to 1, found {shorten(in_order)}", where="splits"
        )
    return CheckedSplits(in_order, {"": None})


def is_by_ratio(splits: Mapping[str, Any]) -> bool:
    """Return whether splits are ratios, not locations."""
    return all(_is_ratio(value) for value in splits.values())


def _is_ratio(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def split_position(source_id: str) -> float:
    """Map an image's hash to [0, 1), which determines its split.

    An image stays in its split when images are added or reordered.
    """
    return int.from_bytes(_digest("split", source_id), "big") / 2**64


def split_at(position: float, ratios: Mapping[str, float]) -> str:
    """Return the split at a `split_position`, with the ratios of `CheckedSplits`."""
    edges = list(zip(itertools.accumulate(ratios.values()), ratios, strict=True))
    return next((name for edge, name in edges if position < edge), edges[-1][1])


def order_digest(source_id: str) -> bytes:
    """Return the sort key of a split's images, hash then id: a deterministic shuffle.

    A trainer shuffles within a window of records. Without this, images of one scene, which data sets list
    together, would stay together.
    """
    return _digest("order", source_id)


def _digest(purpose: str, text: str) -> bytes:
    # The id of a rejected image may not be encodable as UTF-8.
    return hashlib.sha256(f"{purpose}\0{text}".encode(errors="backslashreplace")).digest()[:8]
