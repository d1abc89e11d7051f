"""Access to files and folders, local or on an object store.

Local paths go to `local_files`, others to the object store of their scheme. Shared local files are written
under a temporary name and renamed. On a store, an object appears only when complete. Functions raise OSError
when a disk fails, DataError when a store does not answer.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import functools
import glob as _glob
import hashlib
import importlib
import io
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from detection_core.errors import ConfigError, DataError
from detection_core.redaction import hide_credentials
from detection_core.storage import local_files, store_lock
from detection_core.storage.file_parts import file_part, read_part

if TYPE_CHECKING:
    from detection_core.storage.object_store import ObjectStore

# Module and class of each scheme, imported at first use; a module's whole name makes it count as imported.
_STORES = {
    "s3": ("detection_core.storage.s3", "S3Store"),
    **dict.fromkeys(("gs", "gcs"), ("detection_core.storage.gcs", "GcsStore")),
    **dict.fromkeys(("abfs", "abfss", "az"), ("detection_core.storage.azure", "AzureStore")),
}


def is_remote(path: str) -> bool:
    """Return whether the path has a scheme other than the local file system."""
    return "://" in path and not path.startswith("file://")


def store_of(path: str) -> ObjectStore:
    """Return the store of a remote path.

    Raises:
        DataError: for an unsupported scheme, and for a path with credentials.
    """
    scheme = path.partition("://")[0]
    if scheme not in _STORES:
        known = ", ".join(f"{name}://" for name in sorted(_STORES))
        raise DataError(
            f"expected a local path or one of {known}, found {scheme}://; copy it to one of these", where=path
        )
    if hide_credentials(path):
        raise DataError(
            "expected a path without credentials, found some in it, which logs and records would show;"
            " leave them out and sign in by the variables or files of the store's own tools",
            where=path,
        )
    return cast("ObjectStore", _store(*_STORES[scheme]))


@functools.cache
def _store(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)()


def opened_by_tensorflow(path: str) -> bool:
    """Return whether tf.io.gfile and tf.data open a path."""
    return not is_remote(path) or store_of(path).opened_by_tensorflow


def _local(path: str) -> str:
    path = path.removeprefix("file://")
    with contextlib.suppress(UnicodeEncodeError):
        if b"\0" not in os.fsencode(path):
            return path
    raise ConfigError(
        f"expected a path, found {path!a:.120}, which no file can have: it holds a null character or half"
        " of a character"
    )


def _locate(path: str) -> tuple[ObjectStore | None, str]:
    """Return the store of a remote path and the path; None and the path on this machine for a local one."""
    if not is_remote(path):
        return None, _local(path)
    return store_of(path), path


def open_file(path: str, mode: str = "r") -> IO[Any]:
    """Open a file; the caller closes it. Text is UTF-8."""
    store, path = _locate(path)
    return store.open(path, mode) if store else open(path, mode, encoding=None if "b" in mode else "utf-8")


def read_text(path: str) -> str:
    """Read the whole file as text."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8").read()


def read_bytes(path: str) -> bytes:
    """Read the whole file as bytes."""
    store, path = _locate(path)
    if store:
        return store.read(path)
    with open(path, "rb") as f:
        return f.read()


def read_regular(path: str, limit: int) -> bytes:
    """Read a regular file whole, or a part of a file; a local file or a part has at most `limit` bytes."""
    part = file_part(path)
    if part:
        return read_part(part, limit, lambda: open_regular(part.path, sys.maxsize))
    if is_remote(path):
        return read_bytes(path)
    with open_regular(path, limit) as file:
        return file.read()


def open_regular(path: str, limit: int) -> IO[bytes]:
    """Open a regular file; the caller closes it. `limit` is the largest size of a local file in bytes.

    Use it for paths from data: a named pipe would block forever, and a device has no end.

    Raises:
        OSError: also with EINVAL for other kinds of files, EFBIG for a too large one.
    """
    store, path = _locate(path)
    if store:
        return store.open(path, "rb")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "expected a regular file", path)
        if state.st_size > limit:
            raise OSError(errno.EFBIG, f"expected at most {limit:,} bytes, found {state.st_size:,}", path)
        return cast(IO[bytes], open(descriptor, "rb", buffering=0))
    except BaseException:
        os.close(descriptor)
        raise


IRREGULAR = (errno.EINVAL, errno.EFBIG)  # errors of `open_regular` for an existing path


def exists(path: str) -> bool:
    """Return whether a file or folder exists."""
    store, path = _locate(path)
    return store.exists(path) if store else local_files.mode_of(path) is not None


def is_dir(path: str) -> bool:
    """Return whether a folder exists."""
    store, path = _locate(path)
    return store.is_dir(path) if store else local_files.is_dir(path)


def list_dir(path: str) -> list[str]:
    """Return the sorted names in a folder."""
    store, path = _locate(path)
    return sorted(store.list_dir(path) if store else os.listdir(path))


def list_entries(path: str) -> tuple[list[str], list[str]]:
    """Return the sorted names of a folder's folders and files; links are followed."""
    store, path = _locate(path)
    return store.list_entries(path) if store else local_files.list_entries(path)


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

    Any part of it may contain `*`, `?` and `[...]`, as in the Object Detection API's `input_path`. The path
    of an existing file matches only this file. For paths of this program use `list_matching`, because their
    folders may contain these characters.
    """
    store, here = _locate(pattern)
    if "[" in pattern and exists(pattern) and not is_dir(pattern):
        return [here]
    return sorted(store.glob(pattern) if store else _glob.glob(here))


def make_dirs(path: str) -> None:
    """Make a folder and its parents if missing; a store needs none."""
    store, path = _locate(path)
    if not store:
        local_files.make_dirs(path)


def remove_tree(path: str) -> None:
    """Remove a file or a folder tree; ignore a missing one.

    On a store, saved_model.pb is removed first, so that a killed process leaves no SavedModel.
    """
    store, path = _locate(path)
    if store:
        store.remove_any(path)
    else:
        local_files.remove_tree(path)


def remove_leftovers(folder: str) -> None:
    """Remove incomplete files of killed writers from a folder, but not those of active writers.

    On a store the caller must hold the folder's lock, because a store does not know which writers are alive.
    """
    if not is_remote(folder):
        local_files.remove_leftovers(_local(folder))
    elif is_dir(folder):
        for name in filter(local_files.is_partial, list_dir(folder)):
            remove_tree(join(folder, name))


def rename(source: str, destination: str) -> None:
    """Rename a file or folder; atomic on a local file system."""
    store, source = _locate(source)
    if store:
        store.rename(source, destination)
    else:
        local_files.rename(source, _local(destination))


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


@contextlib.contextmanager
def atomic_file(path: str) -> Iterator[IO[bytes]]:
    """Yield a file for bytes, which appears as `path` when the block succeeds.

    Its folder is created, an existing file is replaced, and the content is synced first. Concurrent writers
    of one path do not conflict; the last to finish wins.
    """
    store, path = _locate(path)
    with store.open(path, "wb") if store else local_files.partial_file(path) as f:
        yield f


@contextlib.contextmanager
def atomic_dir(path: str) -> Iterator[str]:
    """Yield a temporary sibling folder, which replaces `path` when the block succeeds.

    All its files are synced first. On an error the temporary folder is removed and `path` is unchanged.
    Leftovers of killed writers are named `.NAME.*.partial`, which never matches a version or an artifact. The
    next local writer of the same folder removes them; on a store nobody does.
    """
    store, path = _locate(path)
    with store.partial_dir(path) if store else local_files.partial_dir(path) as folder:
        yield folder


def copy_file(source: str, destination: str) -> None:
    """Copy one file, atomically at the destination."""
    if is_remote(destination) and not is_remote(source):
        store_of(destination).upload(_local(source), destination)
    elif is_remote(destination) and store_of(source) is store_of(destination):
        store_of(source).copy(source, destination)
    elif is_remote(source):
        with atomic_file(destination) as there:
            store_of(source).download(source, there)
    else:
        with open_file(source, "rb") as here, atomic_file(destination) as there:
            shutil.copyfileobj(here, there, 1 << 20)


def download(source: str, local_path: str, *, most_bytes: int = sys.maxsize) -> None:
    """Copy one file to a local path without readers.

    Raises:
        OSError: with EINVAL for a local source that is not regular, EFBIG for more than `most_bytes`.
    """
    if is_remote(source):
        with open(local_path, "wb") as there:
            store_of(source).download(source, there, most_bytes)
        return
    with open_regular(source, most_bytes) as here, open(local_path, "wb") as there:
        shutil.copyfileobj(here, there, 1 << 20)


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
            shutil.copyfile(_local(here), _local(there))


def states(path: str) -> Iterator[str]:
    """Yield a line for each file at or below a path, which changes when the file is written.

    An object's line holds key, size and ETag; a local file's its path below `path`, size and time.
    """
    if is_remote(path):
        yield from (f"{e.key} {e.size} {e.etag}" for e in store_of(path).objects(path))
    elif not os.path.isdir(path):
        yield f"/ {_local_state(path)}"
    else:
        for folder, folders, names in os.walk(path):
            folders.sort()
            below = os.path.relpath(folder, path)
            yield from (f"{below}/{name} {_local_state(join(folder, name))}" for name in sorted(names))


def _local_state(path: str) -> str:
    try:
        state = os.stat(path)
    except OSError:  # a broken link
        return "missing"
    return f"{state.st_size} {state.st_mtime_ns}"


def content_state(path: str) -> str:
    """Return a text that changes with a file's content, not with its name.

    It depends on a local file's content. A remote file is not read; its size and ETag are used.

    Raises:
        OSError: when the file does not exist.
    """
    store, path = _locate(path)
    if store:
        found = store.head(path)
        return f"{found.size} {found.etag}"
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


@contextlib.contextmanager
def exclusive(path: str) -> Iterator[Callable[[], None]]:
    """Hold a lock file for one writer in an existing folder; others wait.

    A local lock ends with its holder's process; on a store it is stale after five minutes.

    Yields:
        A function that raises a StorageError when the lock was lost, for instance while the machine slept.
        Call it before each step that others see.
    """
    store, path = _locate(path)
    if store:
        with store_lock.lock(store, path) as confirm:
            yield confirm
    else:
        with local_files.lock(path):
            yield lambda: None


def sizes(folder: str) -> dict[str, int]:
    """Return path and size of every file below a folder; empty if the folder is missing."""
    store, folder = _locate(folder)
    return store.sizes(folder) if store else local_files.sizes(folder)


def total_size(path: str) -> int:
    """Return the size of a file, or of all files below a local folder."""
    root = Path(_local(path))
    return sum(p.stat().st_size for p in (root, *root.rglob("*")) if p.is_file())
