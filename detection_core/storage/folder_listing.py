"""List a folder tree, within limits, to find out what kind of data it holds."""

import collections
import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from detection_core.errors import DataError
from detection_core.storage import files

MAX_FOLDERS, MAX_NAMES, MAX_DEPTH = 5_000, 2_000_000, 8
"""Limits of a listing that only inspects. A listing to read a data set has none."""

_END = 1 << 20
_LEFT_OUT = ("__MACOSX", "lost+found")
_MAKE_READABLE = "let this user list and read it, as `chmod -R u+rX` or its owner can, or move it elsewhere"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FolderListing:
    """The files of a folder tree, except hidden ones.

    Attributes:
        root: the folder, local or remote.
        folders: folder, relative to the root and with slashes, to the sorted names of its files. "" is the
            root. A folder comes before its subfolders.
        complete: whether no limit on numbers was reached.
        left_out: skipped folder to the reason.
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
        """Yield the paths, relative to the root, of files with these suffixes; case is ignored."""
        for folder, names in self.folders.items():
            for name in names:
                if name.lower().endswith(suffixes or ""):
                    yield f"{folder}/{name}" if folder else name

    def folders_named(self, suffix: str) -> Iterator[str]:
        """Yield folders named with a lower-case `suffix`, such as `.xml`, that contain no file with it."""
        for folder in self.folders:
            if folder.lower().endswith(suffix) and not any(
                name.lower().endswith(suffix)
                for below, names in self.folders.items()
                if f"{below}/".startswith(f"{folder}/")
                for name in names
            ):
                yield folder

    def path(self, name: str) -> str:
        """Return the full path of a listed file or folder."""
        return files.join(self.root, name) if name else self.root

    def ends(self, name: str, length: int = _END) -> tuple[bytes, bytes]:
        """Return the first bytes of a file, and the last bytes of a longer one.

        Both are empty for what cannot be read, such as a pipe.
        """
        with contextlib.suppress(OSError), files.open_regular(self.path(name)) as file:
            head = file.read(length)
            size = file.seek(0, os.SEEK_END)
            if size <= len(head):
                return head, b""
            file.seek(max(len(head), size - length))
            return head, file.read(length)
        return b"", b""


def list_folder(root: str, *, bounded: bool = False) -> FolderListing:
    """List a folder tree, folders near the root first.

    Links to folders are followed, each folder once. Links to a parent of the root, such as `/`, are skipped,
    because its other content does not belong to the tree.

    Args:
        root: local or remote.
        bounded: only inspect: stop at this module's limits, so that listing a whole disk ends, and skip
            folders that cannot be listed.

    Raises:
        OSError: when the root cannot be listed.
        DataError: when the store does not answer; unless bounded, when a folder below cannot be listed.
    """
    folders: dict[str, Sequence[str]] = {}
    left_out: dict[str, str] = {}
    seen: set[str] = set()
    above = () if files.is_remote(root) else Path(_real(root)).parents
    waiting = collections.deque([""])
    names, complete = 0, True
    while waiting:
        folder = waiting.popleft()
        path = files.join(root, folder) if folder else root
        real = path if files.is_remote(root) else _real(path)
        if Path(real) in above:
            left_out[folder] = f"a link to {real}, which this folder lies in"
            continue
        try:
            below, here = ([], []) if real in seen else _entries(path)
        except OSError as e:
            if not folder:
                raise
            left_out[folder] = f"{e.strerror or type(e).__name__}: {_MAKE_READABLE}"
            if not bounded:
                found = f"expected a folder that can be listed, found {left_out[folder]}"
                raise DataError(found, where=path) from e
            continue
        seen.add(real)
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


def _real(path: str) -> str:
    return os.path.realpath(path.removeprefix("file://"))


def _entries(path: str) -> tuple[list[str], list[str]]:
    """Return a folder's folders and files."""
    below, here = files.list_entries(path)
    return (
        [name for name in below if not name.startswith(".") and name not in _LEFT_OUT],
        [name for name in here if not name.startswith(".")],
    )
