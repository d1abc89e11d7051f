"""What lies in a folder and below it, within bounds, to find out what the folder is."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import functools
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from detection_core.errors import DataError
from detection_core.storage import files

MAX_FOLDERS, MAX_NAMES, MAX_DEPTH = 5_000, 2_000_000, 8
"""Bounds of a listing that only looks. One that reads a data set has none."""

_END = 1 << 20
_LEFT_OUT = ("__MACOSX", "lost+found")
_MAKE_READABLE = "let this user list and read it, as `chmod -R u+rX` or its owner can, or move it elsewhere"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FolderListing:
    """The files of a folder and of all folders below it, except hidden ones.

    Attributes:
        root: the folder, local or remote.
        folders: folder, relative to the root and with slashes ("" is the root itself), to the sorted names of
            the files in it. A folder comes before those below it.
        complete: whether nothing was left out for its number.
        left_out: folder to the reason, for those that were not looked at.
    """

    root: str
    folders: Mapping[str, Sequence[str]]
    complete: bool
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def known(self) -> frozenset[str]:
        """All folders and files, relative to the root."""
        return frozenset((*self.folders, *self.paths()))

    def paths(self, *suffixes: str) -> Iterator[str]:
        """Yield the paths of files, relative to the root, whose names end so in capitals or small letters."""
        for folder, names in self.folders.items():
            for name in names:
                if name.lower().endswith(suffixes or ""):
                    yield f"{folder}/{name}" if folder else name

    def folders_named(self, suffix: str) -> Iterator[str]:
        """Yield the folders whose name ends with a file suffix and that hold no file with it.

        Args:
            suffix: in small letters, such as `.xml`.
        """
        for folder in self.folders:
            if folder.lower().endswith(suffix) and not any(
                name.lower().endswith(suffix)
                for below, names in self.folders.items()
                if f"{below}/".startswith(f"{folder}/")
                for name in names
            ):
                yield folder

    def path(self, name: str) -> str:
        """Return the whole path of a file or folder in the listing."""
        return files.join(self.root, name) if name else self.root

    def ends(self, name: str, length: int = _END) -> tuple[bytes, bytes]:
        """Return the beginning of a file, and the end of one that is longer.

        What cannot be read, a pipe among it, is empty.
        """
        try:
            return _ends(self.path(name), length)
        except OSError:
            return b"", b""


def _ends(path: str, length: int) -> tuple[bytes, bytes]:
    if files.is_remote(path):
        with files.open_file(path, "rb") as file:
            return _ends_of(file, length)
    descriptor = os.open(path.removeprefix("file://"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "expected a regular file", path)
        return _ends_of(file, length)


def _ends_of(file: IO[bytes], length: int) -> tuple[bytes, bytes]:
    head = file.read(length)
    size = file.seek(0, os.SEEK_END)
    if size <= len(head):
        return head, b""
    file.seek(max(len(head), size - length))
    return head, file.read(length)


def list_folder(root: str, *, bounded: bool = False) -> FolderListing:
    """List a folder with all below it, the folders near the root first.

    Links to folders are followed, each folder once, but not those to a folder that the root lies in, such as
    `/`: what lies beside the root is not part of it.

    Args:
        root: local or remote.
        bounded: a look only: stop at the bounds of this module, so that it ends on a whole disk, and go on
            where a folder cannot be listed.

    Raises:
        OSError: when the root cannot be listed.
        DataError: when the store does not answer; unless bounded, when a folder below cannot be listed.
    """
    folders: dict[str, Sequence[str]] = {}
    left_out: dict[str, str] = {}
    seen: set[object] = set()
    above = _folders_above(root)
    waiting = collections.deque([""])
    names, complete = 0, True
    while waiting:
        folder = waiting.popleft()
        try:
            below, here = _entries(files.join(root, folder) if folder else root, seen, above)
        except _LeadsAboveError as e:
            left_out[folder] = str(e)
            continue
        except OSError as e:
            if not folder:
                raise
            left_out[folder] = f"{e.strerror or type(e).__name__}: {_MAKE_READABLE}"
            if not bounded:
                found = f"expected a folder that can be listed, found {left_out[folder]}"
                raise DataError(found, where=files.join(root, folder)) from e
            continue
        folders[folder] = here
        names += len(here)
        below = [f"{folder}/{name}" if folder else name for name in below]
        if bounded and (
            folder.count("/") + 1 >= MAX_DEPTH
            or names > MAX_NAMES
            or len(folders) + len(waiting) + len(below) > MAX_FOLDERS
        ):
            complete = complete and not below
            continue
        waiting.extend(below)
    return FolderListing(root=root, folders=folders, complete=complete, left_out=left_out)


class _LeadsAboveError(Exception):
    """Raised for a link to a folder that the root lies in."""


def _identity(path: str) -> tuple[int, int]:
    state = os.stat(path)
    return state.st_dev, state.st_ino


def _folders_above(root: str) -> set[object]:
    """Return the identities of the folders that a local folder lies in."""
    above: set[object] = set()
    if not files.is_remote(root):
        for folder in Path(os.path.realpath(root.removeprefix("file://"))).parents:
            with contextlib.suppress(OSError):
                above.add(_identity(str(folder)))
    return above


def _entries(path: str, seen: set[object], above: set[object]) -> tuple[list[str], list[str]]:
    """Return the folders and the files in a folder, none of both for one that was seen."""
    if not files.is_remote(path):
        local = path.removeprefix("file://")
        identity = _identity(local)
        if identity in above:
            raise _LeadsAboveError(f"a link to {os.path.realpath(local)}, which this folder lies in")
        if identity in seen:
            return [], []
        seen.add(identity)
    below, here = files.list_entries(path)
    return (
        [name for name in below if not name.startswith(".") and name not in _LEFT_OUT],
        [name for name in here if not name.startswith(".")],
    )
