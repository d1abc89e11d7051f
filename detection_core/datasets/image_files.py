"""The image files below a folder, found by what annotations call them."""

from __future__ import annotations

import collections
import concurrent.futures
import errno
import functools
import io
import os
import posixpath
import stat
import struct
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, get_args

from detection_core.allowed_values import UnannotatedImages
from detection_core.data.image_header import MAX_FILE_BYTES, PNG_NOTES, ImageFault, read_header
from detection_core.data.orientation import UPRIGHT, noted_orientation, upright_size
from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    Rejected,
    checked_id,
    checked_text,
    path_inside,
)
from detection_core.datasets.layouts import is_image, longest_tails, name_here, stem
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.file_parts import file_part
from detection_core.storage.folder_listing import FolderListing, list_folder

if TYPE_CHECKING:
    from PIL import Image


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


AUTO, BACKGROUND, LEAVE_OUT = CHOICES = get_args(UnannotatedImages)


def check_unannotated_images(value: str) -> str:
    """Return a value of `data.unannotated_images`, checked.

    Raises:
        ConfigError: for another word.
    """
    if value not in CHOICES:
        raise ConfigError(f"expected one of {list(CHOICES)}, found {value!r}", where="unannotated_images")
    return value


def image_without_objects(source_id: str, filename: str, path: str) -> AnnotatedImage:
    """Return an image that shows nothing.

    Raises:
        Rejected: when it cannot be called so.
    """
    checked_text(filename, "the image's name")
    return AnnotatedImage(checked_id(source_id), filename, path, 0, 0, [])


def images_without_annotation(
    available: ImageFiles, about: Collection[str], used: Iterable[str], below: str = ""
) -> list[AnnotatedImage]:
    """Return the images that no annotation is about, called by their names without suffix.

    An image keeps this id, and with it its split, when somebody writes an annotation file of its name.

    Args:
        available: the images that there are.
        about: paths of those that annotations are about, sound ones or not.
        used: ids of those.
        below: only those in this folder, relative to that of the images.
    """
    taken, found = set(used), []
    for name in available:
        path = available.path(name)
        if path in about or not name.startswith(below):
            continue
        bare = name.rpartition(".")[0]
        try:
            image = image_without_objects(name if bare in taken else bare, name, path)
        except Rejected:  # a name that no record can have
            continue
        taken.add(image.source_id)
        found.append(image)
    return found


def left_over(
    unannotated: Sequence[Iterable[AnnotatedImage]], about: Sequence[Iterable[str]]
) -> list[list[AnnotatedImage]]:
    """Return the images of each split that no annotation of any split is about, each in one split alone.

    Args:
        unannotated: of each split, which may share a folder of images.
        about: paths of the images that annotations of each split are about.
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
    """Yield width and height of images in pixels, or why there is none.

    Only the beginning of a file is read, of those on an object store several at a time.

    Args:
        paths: of image files, local or remote.
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
    """Return width and height of an image in pixels, turned as its EXIF orientation says.

    Raises:
        Rejected: when it is not there, or no image.
    """
    from PIL import Image

    try:
        with _open_beginning(path) as file, Image.open(file) as image:
            return _size_of(image, file)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise Rejected("missing_image", "there is no such file") from e
    except Exception:  # Pillow's parsers raise almost anything
        return _size_of_whole(path)


def _open_beginning(path: str) -> IO[bytes]:
    if file_part(path):
        return io.BytesIO(files.read_regular(path, MAX_FILE_BYTES))
    if files.is_remote(path):
        with files.open_file(path, "rb") as file:
            return io.BytesIO(file.read(_HEAD))
    descriptor = os.open(path.removeprefix("file://"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "expected a regular file", path)
    return open(descriptor, "rb")


def _size_of(image: Image.Image, file: IO[bytes]) -> tuple[int, int]:
    # Pillow has turned a TIFF already. It decodes a PNG's pixels to see what stands behind them.
    is_noted = not {"exif", "xmp"}.isdisjoint(image.info) and image.format != "TIFF"
    is_noted = is_noted or (image.format == "PNG" and _is_noted_behind_pixels(file))
    return upright_size(*image.size, noted_orientation(image) if is_noted else UPRIGHT)


def _is_noted_behind_pixels(file: IO[bytes]) -> bool:
    """Tell whether a PNG may have an orientation behind its pixels.

    Raises:
        EOFError: when it is not all there.
    """
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
    """Return the size of an image whose beginning does not tell it, or what is wrong with the file."""
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
