"""Finds image files by annotated name, reads their sizes and lists unannotated images."""

import collections
import concurrent.futures
import dataclasses
import functools
import io
import os
import posixpath
import struct
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, get_args

from detection_core.allowed_values import UnannotatedImages
from detection_core.data.image_header import MAX_FILE_BYTES, PNG_NOTES, ImageFault, read_header
from detection_core.data.orientation import UPRIGHT, noted_orientation, upright_size
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    Annotations,
    Rejected,
    Rejection,
    checked_id,
    checked_text,
    path_inside,
)
from detection_core.datasets.layouts import is_image, longest_tails, name_here, stem
from detection_core.storage import files
from detection_core.storage.file_parts import file_part
from detection_core.storage.folder_listing import FolderListing, list_folder

if TYPE_CHECKING:
    from PIL import Image


class ImageFiles:
    """The image files below a folder.

    Tools write image names with a path of another machine, another suffix or none, or another Unicode normal
    form. A name without an exact match is looked up by its longest tail, which must match exactly one file.
    Names that lead out of the folder are rejected.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            self._listing = list_folder(folder)
        except OSError:  # each image is reported as missing
            self._listing = FolderListing(root=folder, folders={}, complete=True)
        self._names = {path: frozenset(names) for path, names in self._listing.folders.items()}

    def __iter__(self) -> Iterator[str]:
        """Yield the paths, relative to the folder, in the order of the listing."""
        return filter(is_image, self._listing.paths())

    def find(self, name: str, beside: str = "") -> str:
        """Return an image's path, relative to the folder.

        Args:
            name: as annotated, perhaps with a path or address of another machine.
            beside: path of the annotation file without its suffix, relative to the annotations' folder; also
                tried as the image's name.

        Returns:
            The path; the name itself if no file matches.

        Raises:
            Rejected: if the name leaves the folder and does not match exactly one file in it.
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
        """Return the full paths of the files with this name or path, with or without a suffix."""
        whole = _normal(name)
        found = self._alike.get(posixpath.basename(whole), ())
        ends = (f"/{_normal(known)}" for known in found)
        return {
            self.path(path)
            for path, end in zip(found, ends, strict=True)
            if end.endswith(f"/{whole}") or stem(end).endswith(f"/{whole}")
        }

    def has(self, name: str) -> bool:
        """Return whether `find` finds a file for the name."""
        return self._has(self.find(name))

    def path(self, name: str) -> str:
        """Return the full path of a file."""
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
        """Names with and without suffix to paths; built only if a name has no exact match."""
        alike: collections.defaultdict[str, list[str]] = collections.defaultdict(list)
        for path in self:
            base = _normal(posixpath.basename(path))
            for key in {base, stem(base)}:
                alike[key].append(path)
        return dict(alike)


def _normal(name: str) -> str:
    return unicodedata.normalize("NFC", name)


AUTO, BACKGROUND, LEAVE_OUT = CHOICES = get_args(UnannotatedImages)


def image_without_objects(source_id: str, filename: str, path: str) -> AnnotatedImage:
    """Return an image without objects. Raises Rejected if the name or id cannot be used."""
    checked_text(filename, "the image's name")
    return AnnotatedImage(checked_id(source_id), filename, path, 0, 0, [])


def with_unannotated(found: Annotations, available: ImageFiles, below: str = "") -> Annotations:
    """Return annotations that end with the images without any, whose ids are their names without suffix.

    An image keeps this id, and so its split, when an annotation file with its name is added later. `below`
    restricts these images to a folder.
    """

    def images() -> Iterator[AnnotatedImage]:
        taken = set()
        for image in found.images:
            taken.add(image.source_id)
            yield image
        for name in available:
            path, bare = available.path(name), name.rpartition(".")[0]
            if path in found.about or not name.startswith(below):
                continue
            try:
                image = image_without_objects(name if bare in taken else bare, name, path)
            except Rejected:  # a name that no record can have
                continue
            taken.add(image.source_id)
            found.unannotated.append(image)

    return dataclasses.replace(found, images=images())


def read_each(
    found: Annotations,
    paths: Iterable[str],
    read: Callable[[str], AnnotatedImage | None],
    available: ImageFiles,
    shown: str = "",
) -> Annotations:
    """Return the annotations of files with one image each; their categories are the classes that occur.

    Args:
        found: to complete.
        paths: of the annotation files.
        read: returns the image of a file, None for another tool's file; may raise Rejected.
        available: the image files.
        shown: folder of the paths, for rejections.
    """

    def images() -> Iterator[AnnotatedImage]:
        for path in paths:
            name = stem(path)
            try:
                image = read(path)
            except Rejected as e:
                file = os.path.normpath(os.path.join(shown, path))
                found.rejected.append(Rejection(file, name, e.reason, e.detail))
                found.about.update(available.paths_like(name), available.paths_like(os.path.basename(name)))
                continue
            if image is not None:
                found.categories.update((item.name, 0) for item in image.objects)
                found.about.add(image.path)
                yield image

    return dataclasses.replace(found, images=images())


def left_over(
    unannotated: Sequence[Iterable[AnnotatedImage]], about: Sequence[Iterable[str]]
) -> list[list[AnnotatedImage]]:
    """Return each split's images without annotations in any split, each in one split only.

    Splits may share an image folder. `about` are the paths of the annotated images.
    """
    known = {path for paths in about for path in paths}
    return [list(_unseen(images, known)) for images in unannotated]


def _unseen(images: Iterable[AnnotatedImage], known: set[str]) -> Iterator[AnnotatedImage]:
    for image in images:
        if image.path not in known:
            known.add(image.path)
            yield image


_HEAD = 1 << 16
_REQUESTS = 16
_PNG_SIGNATURE_BYTES = 8


def shown_sizes(paths: Sequence[str]) -> Iterator[tuple[int, int] | Rejected]:
    """Yield each image's width and height in pixels, or the reason why they are unknown.

    Only the beginning of a file is read; files on an object store are read in parallel.
    """
    if not any(map(files.is_remote, paths)):
        yield from map(_size_or_reason, paths)
        return
    with concurrent.futures.ThreadPoolExecutor(_REQUESTS) as requests:
        yield from requests.map(_size_or_reason, paths)


def _size_or_reason(path: str) -> tuple[int, int] | Rejected:
    try:
        return shown_size(path)
    except Rejected as e:
        return e


def shown_size(path: str) -> tuple[int, int]:
    """Return an image's width and height in pixels, as its EXIF turns it; Rejected if it is no image."""
    from PIL import Image

    try:
        with _open_beginning(path) as file, Image.open(file) as image:
            return _size_of(image, file)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise Rejected("missing_image", "the file does not exist") from e
    except Exception:  # Pillow's parsers may raise any exception
        return _size_of_whole(path)


def _open_beginning(path: str) -> IO[bytes]:
    if file_part(path):
        return io.BytesIO(files.read_regular(path, MAX_FILE_BYTES))
    if files.is_remote(path):
        with files.open_regular(path) as file:
            return io.BytesIO(file.read(_HEAD))
    return io.BufferedReader(files.open_regular(path, sys.maxsize))  # type: ignore[type-var] # as open() gives it


def _size_of(image: "Image.Image", file: IO[bytes]) -> tuple[int, int]:
    # Pillow has already turned a TIFF. For a PNG it decodes the pixels to reach the chunks after them.
    is_noted = not {"exif", "xmp"}.isdisjoint(image.info) and image.format != "TIFF"
    is_noted = is_noted or (image.format == "PNG" and _is_noted_behind_pixels(file))
    return upright_size(*image.size, noted_orientation(image) if is_noted else UPRIGHT)


def _is_noted_behind_pixels(file: IO[bytes]) -> bool:
    """Return whether a PNG may have an orientation after its pixels; EOFError if truncated."""
    at, pixels, kind = file.tell(), False, b""
    file.seek(_PNG_SIGNATURE_BYTES)
    while kind != b"IEND" and not (pixels and kind in PNG_NOTES):
        head = file.read(8)
        if len(head) < 8:
            raise EOFError
        length, kind = struct.unpack(">I4s", head)
        pixels = pixels or kind == b"IDAT"
        file.seek(length + 4, os.SEEK_CUR)
    file.seek(at)
    return kind != b"IEND"


def _size_of_whole(path: str) -> tuple[int, int]:
    """Return the size from the whole file, or its fault, if the beginning does not contain the size."""
    from PIL import Image

    try:
        data = files.read_regular(path, MAX_FILE_BYTES)
        read_header(data)
        with io.BytesIO(data) as file, Image.open(file) as image:
            return _size_of(image, file)
    except ImageFault as e:
        raise Rejected(e.reason, e.message) from e
    except Exception as e:
        raise Rejected("unreadable_image", f"the size of the image cannot be read: {e}") from e
