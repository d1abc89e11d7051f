"""The image files below a folder, found by what annotations call them."""

from __future__ import annotations

import collections
import functools
import os
import posixpath
import unicodedata
from collections.abc import Iterator

from detection_core.datasets.annotated_images import Rejected, path_inside
from detection_core.datasets.layouts import is_image, longest_tails, name_here, stem
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing, list_folder


class ImageFiles:
    """The image files below a folder.

    Tools write an image's name with a path of another machine, with another suffix or none, in another
    Unicode normal form. A name that is none of a file here is looked up by its longest tail, and taken where
    that is one file alone. No name is followed out of the folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            self._listing = list_folder(folder)
        except OSError:  # the images are reported missing, one by one
            self._listing = FolderListing(root=folder, folders={}, complete=True)
        self._names = {path: frozenset(names) for path, names in self._listing.folders.items()}

    def __iter__(self) -> Iterator[str]:
        """Yield the paths, relative to the folder, in the order of the listing."""
        return filter(is_image, self._listing.paths())

    def find(self, name: str, beside: str = "") -> str:
        """Return an image's path, relative to the folder.

        Args:
            name: as the annotation gives it, perhaps with a path or an address of another machine.
            beside: path of the annotation file without its suffix, relative to the annotations' folder: what
                an image is called that has the annotation's own name.

        Returns:
            The path; the name itself, where no file has it, and the file is then missing.

        Raises:
            Rejected: when the name leaves the folder, and no one file in it is meant.
        """
        plain = os.path.normpath(name)
        if self._has(plain):
            return plain
        elsewhere, near = name_here(name), posixpath.dirname(beside)
        same_place = posixpath.join(near, elsewhere if elsewhere == name else posixpath.basename(elsewhere))
        for guess in (elsewhere, same_place, beside):
            found = self._like(guess) if guess and name else []
            if len(found) == 1:
                return found[0]
        path_inside(self.folder, name)
        if posixpath.normpath(elsewhere) != posixpath.normpath(name.replace("\\", "/")):
            raise Rejected("path_outside", f"the file name {name!r:.200} leaves the image folder")
        return name

    def paths_like(self, name: str) -> set[str]:
        """Return the whole paths of the files that have this name or path, perhaps with a suffix."""
        whole = _normal(name)
        found = self._alike.get(posixpath.basename(whole), ())
        ends = (f"/{_normal(known)}" for known in found)
        return {
            self.path(path)
            for path, end in zip(found, ends, strict=True)
            if end.endswith(f"/{whole}") or stem(end).endswith(f"/{whole}")
        }

    def has(self, name: str) -> bool:
        """Tell whether there is a file that `find` would return for a name."""
        return self._has(self.find(name))

    def path(self, name: str) -> str:
        """Return the whole path of a file."""
        return files.join(self.folder, name)

    def _has(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name in self._names.get(folder, ()) and is_image(name)

    def _like(self, name: str) -> list[str]:
        """Return the files that share the longest tail with a name."""
        base = _normal(posixpath.basename(name))
        found = self._alike.get(base) or self._alike.get(stem(base) if is_image(base) else base, [])
        same = [path for path in found if _normal(posixpath.basename(path)) == base]
        return longest_tails(name, same or found)

    @functools.cached_property
    def _alike(self) -> dict[str, list[str]]:
        """Names with and without suffix to paths: only made for a set whose names are not those of files."""
        alike: collections.defaultdict[str, list[str]] = collections.defaultdict(list)
        for path in self:
            base = _normal(posixpath.basename(path))
            for key in {base, stem(base)}:
                alike[key].append(path)
        return dict(alike)


def _normal(name: str) -> str:
    return unicodedata.normalize("NFC", name)
