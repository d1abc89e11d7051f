"""Access to files and folders, local or on an object store.

Local paths go to `local_files`, others to the object store of their scheme (`schemes`). Shared local files
are written under a temporary name and renamed. On a store, an object appears only when complete.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import glob as _glob
import hashlib
import io
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from detection_core.errors import ConfigError
from detection_core.storage import local_files, store_lock
from detection_core.storage.file_parts import FilePart, decode_part, file_part
from detection_core.storage.local_files import temporary_name
from detection_core.storage.packed_files import PackedFiles
from detection_core.storage.schemes import is_remote, opened_by_tensorflow, store_of

__all__ = ["is_remote", "opened_by_tensorflow"]


def _local(path: str) -> str:
    path = path.removeprefix("file://")
    with contextlib.suppress(UnicodeEncodeError):
        if b"\0" not in os.fsencode(path):
            return path
    raise ConfigError(
        f"expected a path, found {path!a:.120}, which no file can have: it holds a null character or half"
        " of a character"
    )


def open_file(path: str, mode: str = "r") -> IO[Any]:
    """Open a file; the caller closes it. Text is UTF-8.

    Raises:
        OSError: when it cannot be opened.
        DataError: when the store does not answer.
    """
    if not is_remote(path):
        return open(_local(path), mode, encoding=None if "b" in mode else "utf-8")
    return store_of(path).open(path, mode)


def read_text(path: str) -> str:
    """Read the whole file as text."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8").read()


def read_bytes(path: str) -> bytes:
    """Read the whole file as bytes."""
    if is_remote(path):
        return store_of(path).read(path)
    with open_file(path, "rb") as f:
        return bytes(f.read())


def read_regular(path: str, limit: int) -> bytes:
    """Read a whole regular file, or a part of a file, as bytes; see `open_regular`.

    `limit` is the largest size in bytes of a local file or of a part.
    """
    part = file_part(path)
    if part and part.length > limit * (1 + part.base64):
        raise OSError(errno.EFBIG, f"expected at most {limit:,} bytes, found {part.length:,}", part.path)
    if part:
        return decode_part(part, _read_part(part))
    if is_remote(path):
        return read_bytes(path)
    with open_regular(path, limit) as file:
        return file.read()


def _read_part(part: FilePart) -> bytes:
    if part.packed:
        return _PACKED.read(part.path, lambda: open_regular(part.path, sys.maxsize), part.offset, part.length)
    with open_regular(part.path, sys.maxsize) as file:
        file.seek(part.offset)
        return bytes(file.read(part.length))


def open_regular(path: str, limit: int) -> IO[bytes]:
    """Open a regular file; the caller closes it. `limit` is the largest size of a local file in bytes.

    Use it for paths from data: a named pipe would block forever, and a device has no end.

    Raises:
        OSError: when it cannot be opened; with EINVAL when it is not a regular file, EFBIG when it is too
            large.
    """
    if not is_remote(path):
        return _open_local(_local(path), limit)
    return open_file(path, "rb")


def _open_local(path: str, limit: int) -> IO[bytes]:
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


_PACKED = PackedFiles()
IRREGULAR = (errno.EINVAL, errno.EFBIG)  # errors of `open_regular` for an existing path


def exists(path: str) -> bool:
    """Return whether a file or folder exists; raise OSError or DataError if disk or store fails."""
    return store_of(path).exists(path) if is_remote(path) else local_files.mode_of(_local(path)) is not None


def is_dir(path: str) -> bool:
    """Return whether a folder exists; errors as in `exists`."""
    return store_of(path).is_dir(path) if is_remote(path) else local_files.is_dir(_local(path))


def list_dir(path: str) -> list[str]:
    """Return the sorted names in a folder."""
    return sorted(store_of(path).list_dir(path) if is_remote(path) else os.listdir(_local(path)))


def list_entries(path: str) -> tuple[list[str], list[str]]:
    """Return the sorted names of a folder's folders and files; links are followed."""
    if is_remote(path):
        return store_of(path).list_entries(path)
    return local_files.list_entries(_local(path))


def list_matching(folder: str, pattern: str) -> list[str]:
    """Return the sorted paths in a folder whose names match.

    The folder is taken literally, whatever characters it holds. Use this function for paths of this program.

    Args:
        folder: a missing one is empty.
        pattern: of the name alone, with `*`, `?` and `[...]`. As in a shell, only a pattern that begins with
            a dot matches hidden names.
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
    if "[" in pattern and exists(pattern) and not is_dir(pattern):
        return [_local(pattern)]
    return sorted(store_of(pattern).glob(pattern) if is_remote(pattern) else _glob.glob(_local(pattern)))


def make_dirs(path: str) -> None:
    """Make a folder and its parents if missing; a store needs none."""
    if is_remote(path):
        store_of(path)
    else:
        local_files.make_dirs(_local(path))


def remove_tree(path: str) -> None:
    """Remove a file or a folder tree; ignore a missing one.

    On a store, saved_model.pb is removed first, so that a killed process leaves no SavedModel.
    """
    if not is_remote(path):
        local_files.remove_tree(_local(path))
    elif is_dir(path):
        store_of(path).remove_tree(path)
    elif exists(path):
        store_of(path).remove(path)


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
    if is_remote(source):
        store_of(source).rename(source, destination)
    else:
        local_files.rename(_local(source), _local(destination))


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
    if not is_remote(path):
        with local_files.partial_file(_local(path)) as f:
            yield f
        return
    with open_file(path, "wb") as f:
        yield f


@contextlib.contextmanager
def atomic_dir(path: str) -> Iterator[str]:
    """Yield a temporary sibling folder, which replaces `path` when the block succeeds.

    All its files are synced first. On an error the temporary folder is removed and `path` is unchanged.
    Leftovers of killed writers are named `.NAME.*.partial`, which never matches a version or an artifact. The
    next local writer of the same folder removes them; on a store nobody does.
    """
    if not is_remote(path):
        with local_files.partial_dir(_local(path)) as folder:
            yield folder
        return
    temporary = temporary_name(path)
    make_dirs(temporary)
    try:
        yield temporary
        remove_tree(path)
        rename(temporary, path)
    except BaseException:
        remove_tree(temporary)
        raise


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


def etags(path: str) -> list[str]:
    """Return a line with key, size and ETag of each object at or below a remote path.

    A line changes with its object's content. Listings include both values: one request per thousand objects.
    """
    return [f"{e.key} {e.size} {e.etag}" for e in store_of(path).objects(path)]


def content_state(path: str) -> str:
    """Return a text that changes with a file's content, not with its name.

    It depends on a local file's content. A remote file is not read; its size and ETag are used.

    Raises:
        OSError: when the file does not exist.
        DataError: when the store does not answer.
    """
    if is_remote(path):
        found = store_of(path).head(path)
        return f"{found.size} {found.etag}"
    with open(_local(path), "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


@contextlib.contextmanager
def exclusive(path: str) -> Iterator[Callable[[], None]]:
    """Hold a lock file for one writer in an existing folder; others wait.

    A local lock ends with its holder's process; on a store it is stale after five minutes.

    Yields:
        A function that raises a StorageError when the lock was lost, for instance while the machine slept.
        Call it before each step that others see.
    """
    if is_remote(path):
        with store_lock.lock(path) as confirm:
            yield confirm
    else:
        with local_files.lock(_local(path)):
            yield lambda: None


def sizes(folder: str) -> dict[str, int]:
    """Return path and size of every file below a folder; empty if the folder is missing."""
    if is_remote(folder):
        store = store_of(folder)
        skip = len(store.key_of(folder)) + 1
        return {e.key[skip:]: e.size for e in store.objects(folder) if e.key[skip:]}
    if not is_dir(folder):
        return {}
    found: dict[str, int] = {}
    for name in list_dir(folder):
        path = join(folder, name)
        if is_dir(path):
            found |= {f"{name}/{below}": size for below, size in sizes(path).items()}
        else:
            found[name] = os.path.getsize(_local(path))
    return found


def total_size(path: str) -> int:
    """Return the size of a file, or of all files below a local folder."""
    root = Path(_local(path))
    if root.is_file():
        return root.stat().st_size
    return sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
