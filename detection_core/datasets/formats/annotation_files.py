"""Finds the annotation files of formats with one per split, and the folders of formats with one per image."""

import dataclasses
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from detection_core.datasets import layouts
from detection_core.errors import ConfigError, DataError, shorten
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationFile:
    """A recognised annotation file.

    Attributes:
        names: of some of its images.
        subsets: split, from `layouts.split_word`, to its name in the file.
    """

    names: Sequence[str]
    subsets: Mapping[str, str] = dataclasses.field(default_factory=dict)


Found = Mapping[str, AnnotationFile]
"""Path in a listing to the annotation file there."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """An annotation file to read.

    Attributes:
        annotations: path of the file.
        images: path of the folder that its file names are relative to.
        subset: name in the file of the images to take; "" for all.
    """

    annotations: str
    images: str
    subset: str = ""


def only_file(root: str, paths: Sequence[str], usual: str = "\0") -> str:
    """Return a split's only file, or the one that begins with `usual`; DataError if there are several."""
    meant = [path for path in paths if posixpath.basename(path).startswith(usual)] or list(paths)
    if len(meant) > 1:
        raise DataError(
            f"expected one annotation file for each split, found {', '.join(sorted(meant)[:6])}; name the "
            'file of each split in data.splits: {"train": {"annotations": FILE, "images": FOLDER}}',
            where=root,
        )
    return meant[0]


def locate_images(listing: FolderListing, path: str, names: Sequence[str], split: str) -> dict[str, str]:
    """Return a split's location: its annotation file, and the folder that its file names are relative to.

    The folder is omitted if no image is found. `split` is "" if the file has none.
    """
    folder = layouts.find_image_folder(listing, names, split, posixpath.dirname(path))
    return {"annotations": path} if folder is None else {"annotations": path, "images": folder or "."}


def divide(listing: FolderListing, found: Found, usual: str = "\0") -> dict[str, dict[str, str]]:
    """Return the location of each split in the files' names or subsets; the key is "" without splits.

    Raises:
        DataError: if there are several files and their splits are ambiguous.
    """
    divided = {split: paths for split, paths in layouts.group_by_split(found).items() if split}
    if layouts.TRAIN in divided and len(divided) > 1:
        chosen = {split: only_file(listing.root, paths, usual) for split, paths in divided.items()}
        return {
            split: locate_images(listing, path, found[path].names, split) for split, path in chosen.items()
        }
    path = only_file(listing.root, list(found), usual)
    where = locate_images(listing, path, found[path].names, "")
    subsets = found[path].subsets
    if layouts.TRAIN in subsets and len(subsets) > 1:
        return {split: {**where, "subset": subset} for split, subset in subsets.items()}
    return {"": where}


def candidates(listing: FolderListing, *endings: str, most: int = 20) -> Iterator[str]:
    """Yield the files with these suffixes, but only three from a folder with more than `most`."""
    for folder, names in listing.folders.items():
        paths = [posixpath.join(folder, name) for name in names if name.lower().endswith(endings)]
        yield from paths if len(paths) <= most else paths[:3]


SAMPLED_NAMES = 100
"""Number of an unsplit set's image names that find the lists of its splits."""

_OPENED = 3
"""Files of a folder that are opened to recognise the format of all."""


def annotated_folders(
    listing: FolderListing, suffix: str, recognises: Callable[[FolderListing, str], bool]
) -> dict[str, list[str]]:
    """Return the folders with annotation files, one an image, with the files' names without suffix."""
    found = {}
    for folder, names in listing.folders.items():
        fitting = [name for name in names if name.lower().endswith(suffix)]
        if any(
            recognises(listing, posixpath.join(folder, name)) for name in layouts.spread(fitting, _OPENED)
        ):
            found[folder] = list(map(layouts.stem, fitting))
    return found


def say_folders(found: Mapping[str, Sequence[str]], kind: str) -> str:
    """Say how many files of a kind are in the first folders of `annotated_folders`."""
    return ", ".join(
        f"{len(names)} {kind} files in {layouts.name_folder(at)}" for at, names in [*found.items()][:6]
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A format whose annotation files are detected by content and hold all images of a split.

    Attributes:
        name: a key of `readers.READERS`.
        title: of the format, for messages.
        what: one of its files, for messages.
        find_files: returns the format's files in a listing.
        usual: how the names of the meant files begin; see `only_file`.
        subsets: whether a file may be divided by names in it.
    """

    name: str
    title: str
    what: str
    find_files: Callable[[FolderListing], Found]
    usual: str = "\0"
    subsets: bool = True

    def find(self, listing: FolderListing) -> layouts.Layout | None:
        """Find the annotation files in a folder and their image folders; see `describe`."""
        return self.describe(listing, self.find_files(listing))

    def describe(self, listing: FolderListing, found: Found) -> layouts.Layout | None:
        """Describe a data set of annotation files, None without; DataError if their splits are ambiguous."""
        if not found:
            return None
        locations = divide(listing, found, self.usual)
        used = list(dict.fromkeys(where["annotations"] for where in locations.values()))
        folders = sorted({where["images"] for where in locations.values() if "images" in where})
        others = [path for path in found if path not in used]
        beside = f"; not taken: {', '.join(others[:4])}" if others else ""
        count = layouts.count_images(listing, folders)
        in_folders = ", ".join(map(layouts.name_folder, folders)) or "no folder that was found"
        subsets = {where["subset"]: None for where in locations.values() if "subset" in where}
        divided = f", divided into {', '.join(subsets)}" if subsets else ""
        files_said = f"{self.title} in {', '.join(used)}{divided}"
        return layouts.Layout(
            format=self.name,
            path=listing.root,
            splits=layouts.name_splits(locations),
            evidence=f"{files_said}, {count} images in {in_folders}{beside}",
            images=count,
            names=[name for path in used for name in found[path].names],
        )

    def sources(self, root: str, location: Any) -> list[Source]:
        """Find the annotation files and image folders of a split.

        `location` is `{"annotations": FILE, "images": FOLDER}`, relative to `root`, optionally with
        `"subset": NAME`. None means every file of the format below `root`.

        Raises:
            ConfigError: if the location has another form.
            DataError: if a file or folder is missing, or the choice of file is ambiguous.
        """
        if location is None:
            return self._all_sources(root)
        keys = set(location) if isinstance(location, Mapping) else set()
        if not {"annotations", "images"} <= keys <= {"annotations", "images", *["subset"] * self.subsets}:
            raise ConfigError(
                f'expected {{"annotations": FILE, "images": FOLDER}}, found {shorten(location)}',
                where="splits",
            )
        annotations = files.join(root, str(location["annotations"]))
        images = layouts.folder_in(root, str(location["images"]))
        if not files.exists(annotations):
            raise DataError(f"expected {self.what}, found nothing; correct data.splits", where=annotations)
        if not files.is_dir(images):
            raise DataError("expected the image folder, found nothing; correct data.splits", where=images)
        return [Source(annotations=annotations, images=images, subset=str(location.get("subset", "")))]

    def _all_sources(self, root: str) -> list[Source]:
        listing = layouts.list_data_set(root)
        found = self.find_files(listing)
        if not found:
            message = f"expected {self.what}, found none; correct data.path or data.format"
            raise DataError(message, where=root)
        locations = divide(listing, found).values()
        # Names are relative to one folder, so that those of two splits differ.
        shared = posixpath.commonpath([where.get("images", ".") for where in locations])
        images = layouts.folder_in(root, shared)
        used = dict.fromkeys(where["annotations"] for where in locations)
        return [Source(annotations=listing.path(path), images=images) for path in used]

    def locate(self, root: str, location: Any) -> list[str]:
        """Return the paths of `sources`."""
        return [
            path for source in self.sources(root, location) for path in (source.annotations, source.images)
        ]
