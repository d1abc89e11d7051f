"""The image files below a folder, found by what annotations call them."""

from __future__ import annotations

import collections
import os
import posixpath
import unicodedata
from collections.abc import Iterator

from detection_core.datasets.annotated_images import path_inside
from detection_core.datasets.layouts import is_image, stem
from detection_core.storage import files
from detection_core.storage.folder_listing import list_folder


class ImageFiles:
    """The image files below a folder.

    Tools write an image's name with a path of another machine, with another suffix or none, in another
    Unicode normal form. A name that is none of a file here is looked up by what it has in common with one,
    and taken where that is one file alone.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            listing = list_folder(folder)
        except OSError:  # the images are reported missing, one by one
            listing = None
        self._paths = [path for path in listing.paths() if is_image(path)] if listing else []
        self._exact = set(self._paths)
        self._alike: collections.defaultdict[str, list[str]] = collections.defaultdict(list)
        for path in self._paths:
            # A set, as a file's name may be its path.
            for key in {key for name in (path, _base(path)) for key in (_normal(name), _normal(stem(name)))}:
                self._alike[key].append(path)

    def __iter__(self) -> Iterator[str]:
        """Yield the paths, relative to the folder, in the order of the listing."""
        return iter(self._paths)

    def find(self, name: str, beside: str = "") -> str:
        """Return an image's path, relative to the folder.

        Args:
            name: as the annotation gives it.
            beside: path of the annotation file without its suffix, relative to the annotations' folder: what
                an image is called that has the annotation's own name.

        Returns:
            The path; the name itself, where no file has it, and the file is then missing.

        Raises:
            Rejected: when the name leaves the folder.
        """
        path_inside(self.folder, name)
        plain = os.path.normpath(name)
        if plain in self._exact:
            return plain
        near = posixpath.join(posixpath.dirname(beside), name)
        base = _base(name.replace("\\", "/"))
        for guess in (near, name, beside, base, _bare(near), _bare(name), _bare(base)):
            found = self._alike.get(_normal(guess), ()) if guess else ()
            if len(found) == 1:
                return found[0]
        return name

    def paths_like(self, name: str) -> set[str]:
        """Return the whole paths of the files that have this name or path, perhaps with a suffix."""
        return {self.path(path) for path in self._alike.get(_normal(name), ())}

    def has(self, name: str) -> bool:
        """Tell whether there is a file that `find` would return for a name."""
        return self.find(name) in self._exact

    def path(self, name: str) -> str:
        """Return the whole path of a file."""
        return files.join(self.folder, name)


def _base(path: str) -> str:
    return posixpath.basename(path)


def _bare(name: str) -> str:
    """Return a name without the suffix of an image; other dots are part of it."""
    return stem(name) if is_image(name) else name


def _normal(name: str) -> str:
    return unicodedata.normalize("NFC", name)
