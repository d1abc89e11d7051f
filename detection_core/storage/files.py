"""Access to files and folders, local or on an object store.

Local paths go to `local_files`, all others to the object store of their scheme (`schemes`). What others may
read is written under a temporary name and renamed in, or, on a store, appears whole with its last byte.
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
    """Return a local path as the operating system takes it."""
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
    if is_remote(path):
        return store_of(path).open(path, mode)
    return open(_local(path), mode, encoding=None if "b" in mode else "utf-8")


def read_text(path: str) -> str:
    """Return the whole file as text."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path)), encoding="utf-8").read()


def read_bytes(path: str) -> bytes:
    """Return the whole file as bytes."""
    if is_remote(path):
        return store_of(path).read(path)
    with open_file(path, "rb") as f:
        return bytes(f.read())


def read_regular(path: str, limit: int) -> bytes:
    """Return the whole file as bytes, if it is a regular one of bounded size.

    Args:
        path: local or remote, or that of a part of a file.
        limit: bytes above which it is not read.

    Raises:
        OSError: as `open_regular` does.
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
    """Open a file to be read in pieces, if it is a regular one of bounded size; the caller closes it.

    For files whose names arrive with the data: a named pipe would block for ever, a device never end.

    Args:
        path: local or remote.
        limit: bytes above which a local file is not read.

    Raises:
        OSError: when it cannot be opened; with EINVAL when it is no regular file, EFBIG when it is too large.
    """
    if is_remote(path):
        return open_file(path, "rb")
    descriptor = os.open(_local(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
IRREGULAR = (errno.EINVAL, errno.EFBIG)  # by which `open_regular` refuses what is there


def exists(path: str) -> bool:
    """Tell whether a file or folder is there; an OSError or DataError where disk or store does not say."""
    return store_of(path).exists(path) if is_remote(path) else local_files.mode_of(_local(path)) is not None


def is_dir(path: str) -> bool:
    """Tell whether a folder is there, as `exists` does."""
    return store_of(path).is_dir(path) if is_remote(path) else local_files.is_dir(_local(path))


def list_dir(path: str) -> list[str]:
    """Return the sorted names in a folder."""
    return sorted(store_of(path).list_dir(path) if is_remote(path) else os.listdir(_local(path)))


def list_entries(path: str) -> tuple[list[str], list[str]]:
    """Return the sorted names of the folders and of the files in a folder; a link is what it leads to."""
    if is_remote(path):
        return store_of(path).list_entries(path)
    return local_files.list_entries(_local(path))


def list_matching(folder: str, pattern: str) -> list[str]:
    """Return the sorted paths of what lies in a folder and has a matching name.

    The folder is taken as it is written, whatever characters it holds; what a path of ours is listed with.

    Args:
        folder: one that is missing holds nothing.
        pattern: of the name alone, with `*`, `?` and `[...]`; hidden names match only a pattern that begins
            with a dot, as in a shell.
    """
    if not is_dir(folder):
        return []
    names = (name for name in list_dir(folder) if not name.startswith(".") or pattern.startswith("."))
    return [join(folder, name) for name in names if fnmatch.fnmatchcase(name, pattern)]


def escape(path: str) -> str:
    """Return a pattern that matches a path as it is written and nothing else."""
    return _glob.escape(path)


def glob(pattern: str) -> list[str]:
    """Return the sorted paths that match a pattern which a user wrote.

    `*`, `?` and `[...]` may be in any part of it, as in an `input_path` of the Object Detection API; but the
    path of a file that is there names this file. A path of ours goes through `list_matching`, as its folders
    may hold the characters of a pattern.
    """
    if "[" in pattern and exists(pattern) and not is_dir(pattern):
        return [_local(pattern)]
    return sorted(store_of(pattern).glob(pattern) if is_remote(pattern) else _glob.glob(_local(pattern)))


def make_dirs(path: str) -> None:
    """Make a folder and its parents; one that exists is left as it is, and a store needs none."""
    if is_remote(path):
        store_of(path)
    else:
        local_files.make_dirs(_local(path))


def remove_tree(path: str) -> None:
    """Remove a file or folder with all below it; one that is missing is no error.

    Of a SavedModel on a store saved_model.pb goes first, so that what a killed remover leaves is none.
    """
    if not is_remote(path):
        local_files.remove_tree(_local(path))
    elif is_dir(path):
        store_of(path).remove_tree(path)
    elif exists(path):
        store_of(path).remove(path)


def remove_leftovers(folder: str) -> None:
    """Remove incomplete files of killed writers from a folder, but not those of active writers.

    On a store the caller holds the folder's lock, as a store does not know which writers are alive.
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
    """Write a file so that a reader sees the old content or the new, never a part."""
    with atomic_file(path) as f:
        f.write(data)


def write_text(path: str, text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part."""
    write_bytes(path, text.encode())


@contextlib.contextmanager
def atomic_file(path: str) -> Iterator[IO[bytes]]:
    """Yield a file to write bytes to, which appears under its name when the block ends without an error.

    Its content is on the disk before. Two writers of the same path do not disturb each other; the last one to
    end wins.

    Args:
        path: the file to make; its folder is made too, and an existing file is replaced.
    """
    if not is_remote(path):
        with local_files.partial_file(_local(path)) as f:
            yield f
        return
    with open_file(path, "wb") as f:
        yield f


@contextlib.contextmanager
def atomic_dir(path: str) -> Iterator[str]:
    """Yield a temporary sibling folder that replaces `path` when the block ends without an error.

    All files in it are on the disk before. On an error the temporary folder is removed and `path` keeps what
    it had. Leftovers of killed writers are named `.NAME.*.partial`, never match a version or an artifact
    name, and are removed by the next writer of the same folder; on a store by nobody.

    Args:
        path: the folder to make; an existing one is replaced.
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
    """Copy one file to a local path that has no readers yet.

    Raises:
        OSError: with EINVAL for a local source that is no regular file, EFBIG for more than `most_bytes`.
    """
    if is_remote(source):
        with open(local_path, "wb") as there:
            store_of(source).download(source, there, most_bytes)
        return
    with open_regular(source, most_bytes) as here, open(local_path, "wb") as there:
        shutil.copyfileobj(here, there, 1 << 20)


def copy_tree(source: str, destination: str) -> None:
    """Copy a folder with all below it into `destination`, which is made; existing files are overwritten."""
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
    """Return key, size and ETag of each object at or below a remote path, one line an object.

    A line changes when the content of its object does. Stores tell both in their listing: one request for a
    thousand objects.
    """
    return [f"{e.key} {e.size} {e.etag}" for e in store_of(path).objects(path)]


def content_state(path: str) -> str:
    """Return a text that changes when the content of a file does, and not with its name.

    A local file counts by its content. A remote one is not read: its size and ETag count.

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
    """Hold a lock file for one writer at a time, in a folder that exists; others wait.

    A local lock goes when its holder dies; on a store it is considered stale after five minutes.

    Yields:
        A function that raises a StorageError when the lock was lost, as that of a machine that slept can be:
        to be called before each step that others see.
    """
    if is_remote(path):
        with store_lock.lock(path) as confirm:
            yield confirm
    else:
        with local_files.lock(_local(path)):
            yield lambda: None


def sizes(folder: str) -> dict[str, int]:
    """Return path and bytes of every file below a folder; none where the folder does not exist."""
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
    """Return the bytes of a file, or of all files below a local folder."""
    root = Path(_local(path))
    if root.is_file():
        return root.stat().st_size
    return sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
