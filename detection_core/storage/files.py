"""Access to files and folders, local or on an object store.

Each function finds the store of its path, the local disk or the object store of the scheme, and calls its
method. Shared local files are written under a temporary name and renamed. On a store, an object appears only
when complete. Functions raise OSError when a disk fails, DataError when a store does not answer.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import functools
import glob as _glob
import importlib
import io
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from detection_core.errors import ConfigError, DataError
from detection_core.redaction import hide_credentials
from detection_core.storage.file_parts import file_part, read_part
from detection_core.storage.local_files import LOCAL_DISK, LocalDisk
from detection_core.storage.scratch_folder import ScratchFolder

if TYPE_CHECKING:
    from detection_core.storage.object_store import ObjectStore

    Store = LocalDisk | ObjectStore

# Module and class of each scheme, imported at first use; a module's whole name makes it count as imported.
_STORES = {
    "s3": ("detection_core.storage.s3", "S3Store"),
    **dict.fromkeys(("gs", "gcs"), ("detection_core.storage.gcs", "GcsStore")),
    **dict.fromkeys(("abfs", "abfss", "az"), ("detection_core.storage.azure", "AzureStore")),
}

MAX_TEXT_BYTES = 1 << 22
"""Bytes of a text file that is read whole; files of data sets are read in pieces and may be longer."""


def is_remote(path: str) -> bool:
    """Return whether the path has a scheme other than the local file system."""
    return "://" in path and not path.startswith("file://")


def store_of(path: str) -> ObjectStore:
    """Return the store of a remote path; DataError for an unsupported scheme or credentials in it."""
    scheme = path.partition("://")[0]
    if scheme not in _STORES:
        known = ", ".join(f"{name}://" for name in sorted(_STORES))
        raise DataError(
            f"expected a local path or one of {known}, found {scheme}://; copy it to one of these", where=path
        )
    if hide_credentials(path):
        raise DataError(
            "expected a path without credentials, found some; remove them, and sign in by the variables or"
            " files of the store's tools",
            where=path,
        )
    return cast("ObjectStore", _store(*_STORES[scheme]))


@functools.cache
def _store(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)()


def _store_at(path: str) -> Store:
    """Return the local disk, or the object store of a remote path."""
    return store_of(path) if is_remote(path) else LOCAL_DISK


def _plain(path: str) -> str:
    """Return the path by which its store knows it: without `file://`."""
    if is_remote(path):
        return path
    path = path.removeprefix("file://")
    with contextlib.suppress(UnicodeEncodeError):
        if b"\0" not in os.fsencode(path):
            return path
    raise ConfigError(
        f"expected a path, found {path!a:.120}, which no file can have: it holds a null character or half"
        " of a character"
    )


def read_text(path: str) -> str:
    """Read the whole file as text."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8").read()


def read_bytes(path: str) -> bytes:
    """Read the whole file as bytes."""
    return _store_at(path).read(_plain(path))


def read_user_text(path: str, *, what: str, longest: int = MAX_TEXT_BYTES) -> str:
    """Read a user's text file of at most `longest` bytes; errors call it `what`, such as "pipeline.config".

    Raises:
        ConfigError: when the file is missing, unreadable, not a regular file, too large or not text.
    """
    try:
        with open_regular(path, longest) as file:
            found = file.read(longest + 1)
            if len(found) > longest:
                raise OSError(errno.EFBIG, f"expected at most {longest:,} bytes, found more", path)
        text = found.decode("utf-8-sig")
        if "\0" in text:
            raise ConfigError(f"expected a {what} in text format, found null characters", where=path)
        return text
    except UnicodeDecodeError as error:
        message = f"expected a {what} in text format, found bytes that are not UTF-8 text"
        raise ConfigError(message, where=path) from error
    except (OSError, ValueError, DataError) as error:
        raise ConfigError(_explained(error, what), where=path) from error


def _explained(error: Exception, what: str) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EINVAL:
        return f"expected a {what}, found no regular file; check the path"
    if number == errno.EFBIG and isinstance(error, OSError):
        return f"{str(error.strerror).replace('at most', f'a {what} of at most', 1)}; check the path"
    return f"cannot read the {what} ({error}); check the path"


def read_regular(path: str, limit: int) -> bytes:
    """Read a regular file whole, or a part of a file; a local file or a part has at most `limit` bytes."""
    part = file_part(path)
    if part:
        return read_part(part, limit, lambda: open_regular(part.path))
    if is_remote(path):
        return read_bytes(path)
    with open_regular(path, limit) as file:
        return file.read()


def open_regular(path: str, limit: int = sys.maxsize) -> IO[bytes]:
    """Open a regular file for reading; the caller closes it.

    `limit` is the largest size of a local file in bytes.

    Use it for paths from data: a named pipe would block forever, and a device has no end.

    Raises:
        OSError: also with EINVAL for other kinds of files, EFBIG for a too large one.
    """
    return _store_at(path).open_regular(_plain(path), limit)


IRREGULAR = (errno.EINVAL, errno.EFBIG, errno.ENXIO)  # errors of `open_regular` for an existing path


def exists(path: str) -> bool:
    """Return whether a file or folder exists."""
    return _store_at(path).exists(_plain(path))


def is_dir(path: str) -> bool:
    """Return whether a folder exists."""
    return _store_at(path).is_dir(_plain(path))


def list_dir(path: str) -> list[str]:
    """Return the sorted names in a folder."""
    return sorted(itertools.chain(*list_entries(path)))


def list_entries(path: str) -> tuple[list[str], list[str]]:
    """Return the sorted names of a folder's folders and files; links are followed."""
    return _store_at(path).list_entries(_plain(path))


def list_matching(folder: str, pattern: str) -> list[str]:
    """Return the sorted paths in a folder whose names match a pattern with `*`, `?` and `[...]`.

    The folder is taken literally, whatever characters it holds; a missing one is empty. As in a shell, only a
    pattern that begins with a dot matches hidden names.
    """
    if not is_dir(folder):
        return []
    names = (name for name in list_dir(folder) if not name.startswith(".") or pattern.startswith("."))
    return [join(folder, name) for name in names if fnmatch.fnmatchcase(name, pattern)]


def escape(path: str) -> str:
    """Return a pattern that matches only this literal path."""
    return _glob.escape(path)


def glob(pattern: str) -> list[str]:
    """Return the sorted paths that match a user's pattern.

    Any part of it may contain `*`, `?` and `[...]`, as in the Object Detection API's `input_path`, or be `**`
    for any number of folders. The path
    of an existing file matches only this file. For paths of this program use `list_matching`, because their
    folders may contain these characters.
    """
    store, path = _store_at(pattern), _plain(pattern)
    if "[" in path and store.exists(path) and not store.is_dir(path):
        return [path]
    return sorted(store.glob(path))


def make_dirs(path: str) -> None:
    """Make a folder and its parents if missing; a store needs none."""
    _store_at(path).make_dirs(_plain(path))


def remove_tree(path: str) -> None:
    """Remove a file or a folder tree; ignore a missing one.

    On a store, saved_model.pb is removed first, so that a killed process leaves no SavedModel.
    """
    _store_at(path).remove_tree(_plain(path))


def remove_leftovers(folder: str) -> None:
    """Remove incomplete files of killed writers from a folder, but not those of active writers.

    On a store the caller must hold the folder's lock, because a store does not know which writers are alive.
    """
    _store_at(folder).remove_leftovers(_plain(folder))


def rename(source: str, destination: str) -> None:
    """Rename a file or folder; atomic on a local file system."""
    _store_at(source).rename(_plain(source), _plain(destination))


def join(*parts: str) -> str:
    """Join path parts, local or remote."""
    return os.path.join(*parts)


def write_bytes(path: str, data: bytes) -> None:
    """Write a file atomically: readers see the old content or the new, never a part."""
    with atomic_file(path) as f:
        f.write(data)


def write_text(path: str, text: str) -> None:
    """Write a text file atomically, like `write_bytes`."""
    write_bytes(path, text.encode())


def atomic_file(path: str) -> AbstractContextManager[IO[bytes]]:
    """Yield a file for bytes, which appears as `path` when the block succeeds.

    Its folder is created, an existing file is replaced, and the content is synced first. Concurrent writers
    of one path do not conflict; the last to finish wins.
    """
    return _store_at(path).atomic_file(_plain(path))


def atomic_dir(path: str) -> AbstractContextManager[str]:
    """Yield a temporary sibling folder, which replaces `path` when the block succeeds.

    All its files are synced first. On an error the temporary folder is removed and `path` is unchanged.
    Leftovers of killed writers are named `.NAME.*.partial`, which never matches a version or an artifact. The
    next local writer of the same folder removes them; on a store nobody does.
    """
    return _store_at(path).atomic_dir(_plain(path))


def copy_file(source: str, destination: str) -> None:
    """Copy one file, atomically at the destination."""
    here, there = _store_at(source), _store_at(destination)
    source, destination = _plain(source), _plain(destination)
    if here is there and not isinstance(there, LocalDisk):
        there.copy(source, destination)
    elif isinstance(here, LocalDisk) and not isinstance(there, LocalDisk):
        there.upload(source, destination)
    else:
        with there.atomic_file(destination) as file:
            here.read_into(file, source)


def download(source: str, local_path: str, *, most_bytes: int = sys.maxsize) -> None:
    """Copy one file to a local path without readers.

    Raises:
        OSError: with EINVAL for a local source that is not regular, EFBIG for more than `most_bytes`.
    """
    store, source = _store_at(source), _plain(source)
    with open(local_path, "wb") as file:
        store.read_into(file, source, most_bytes)


@contextlib.contextmanager
def local_copy(path: str) -> Iterator[str]:
    """Yield a local path: the file or folder itself, or a copy of a remote one, deleted after the block.

    Raises:
        FileNotFoundError: when nothing is there.
        DataError: when the store does not answer.
    """
    if not is_remote(path):
        yield path
        return
    with ScratchFolder() as scratch:
        copy = join(scratch, path.rstrip("/").rpartition("/")[2])
        if is_dir(path):
            copy_tree(path, copy)
        else:
            download(path, copy)
        yield copy


def opened_by_tensorflow(path: str) -> bool:
    """Return whether tf.io.gfile and tf.data open a path."""
    return not is_remote(path) or store_of(path).opened_by_tensorflow


def copy_tree(source: str, destination: str) -> None:
    """Copy a folder tree into `destination`, which is created if missing; overwrite existing files."""
    make_dirs(destination)
    for name in list_dir(source):
        here, there = join(source, name), join(destination, name)
        if is_dir(here):
            copy_tree(here, there)
        elif is_remote(source) or is_remote(destination):
            copy_file(here, there)
        else:
            shutil.copyfile(_plain(here), _plain(there))


def states(path: str) -> Iterator[str]:
    """Yield a line for each file at or below a path, which changes when the file is written.

    An object's line holds key, size and ETag; a local file's its path below `path`, size and time.
    """
    return _store_at(path).states(_plain(path))


def content_state(path: str) -> str:
    """Return a text that changes with a file's content, not with its name.

    It depends on a local file's content. A remote file is not read; its size and ETag are used.

    Raises:
        OSError: when the file does not exist.
    """
    return _store_at(path).content_state(_plain(path))


def exclusive(path: str) -> AbstractContextManager[Callable[[], None]]:
    """Hold a lock file for one writer in an existing folder; others wait.

    A local lock ends with its holder's process; on a store it is stale after five minutes.

    Yields:
        A function that raises a StorageError when the lock was lost, for instance while the machine slept.
        Call it before each step that others see.
    """
    return _store_at(path).exclusive(_plain(path))


def sizes(folder: str) -> dict[str, int]:
    """Return path and size of every file below a folder; empty if the folder is missing."""
    return _store_at(folder).sizes(_plain(folder))


def total_size(path: str) -> int:
    """Return the size of a file, or of all files below a local folder."""
    root = Path(_plain(path))
    return sum(p.stat().st_size for p in (root, *root.rglob("*")) if p.is_file())
