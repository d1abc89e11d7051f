"""Files and folders, local or on an object store; the only user of tf.io.gfile.

Local paths never import TensorFlow, so that light steps stay light. A path with a scheme (`gs://...`) goes
through tf.io.gfile. Whatever another process may read is written under a temporary name and renamed in.
"""

from __future__ import annotations

import contextlib
import glob as _glob
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


def is_remote(path: str) -> bool:
    """Tell whether the path names an object store or another scheme than the local file system."""
    return "://" in path and not path.startswith("file://")


def _gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile


def _local(path: str) -> str:
    return path.removeprefix("file://")


def open_file(path: str, mode: str = "r") -> IO[Any]:
    """Open a file; the caller closes it. Text is UTF-8.

    Raises:
        OSError: (or tf.errors.OpError for a remote path) when it cannot be opened.
    """
    if is_remote(path):
        return _gfile().GFile(path, mode)
    return open(_local(path), mode, encoding=None if "b" in mode else "utf-8")


def read_text(path: str) -> str:
    """Return the whole file as text."""
    with open_file(path) as f:
        return str(f.read())


def read_bytes(path: str) -> bytes:
    """Return the whole file as bytes."""
    with open_file(path, "rb") as f:
        return bytes(f.read())


def exists(path: str) -> bool:
    """Tell whether a file or folder is there."""
    return bool(_gfile().exists(path)) if is_remote(path) else os.path.exists(_local(path))


def is_dir(path: str) -> bool:
    """Tell whether a folder is there."""
    return bool(_gfile().isdir(path)) if is_remote(path) else os.path.isdir(_local(path))


def list_dir(path: str) -> list[str]:
    """Return the sorted names in a folder."""
    names = _gfile().listdir(path) if is_remote(path) else os.listdir(_local(path))
    return sorted(name.rstrip("/") for name in names)


def glob(pattern: str) -> list[str]:
    """Return the sorted paths that match a pattern."""
    return sorted(_gfile().glob(pattern) if is_remote(pattern) else _glob.glob(_local(pattern)))


def make_dirs(path: str) -> None:
    """Make a folder and its parents; one that exists is left as it is."""
    if is_remote(path):
        _gfile().makedirs(path)
    else:
        os.makedirs(_local(path), exist_ok=True)


def remove_tree(path: str) -> None:
    """Remove a file or folder with all below it; one that is missing is no error."""
    if not exists(path):
        return
    if is_remote(path):
        _gfile().rmtree(path) if is_dir(path) else _gfile().remove(path)
    elif os.path.isdir(_local(path)):
        shutil.rmtree(_local(path))
    else:
        os.remove(_local(path))


def rename(source: str, destination: str) -> None:
    """Rename a file or folder; atomic on a local file system."""
    if is_remote(source):
        _gfile().rename(source, destination)
    else:
        os.rename(_local(source), _local(destination))


def join(*parts: str) -> str:
    """Join path parts, local or remote."""
    return os.path.join(*parts)


def _temporary_name(path: str) -> str:
    folder, name = os.path.split(path.rstrip("/"))
    return os.path.join(folder, f".{name}.{uuid.uuid4().hex[:8]}.partial")


def _sync(path: str) -> None:
    """Flush a folder's entries, so that a rename survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: str, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    temporary = _temporary_name(path)
    make_dirs(os.path.dirname(path) or ".")
    if is_remote(path):
        with _gfile().GFile(temporary, "wb") as f:
            f.write(data)
        _gfile().rename(temporary, path, overwrite=True)
        return
    temporary, path = _local(temporary), _local(path)
    with open(temporary, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    os.replace(temporary, path)
    _sync(os.path.dirname(path) or ".")


def write_text(path: str, text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part."""
    write_bytes(path, text.encode())


@contextlib.contextmanager
def atomic_file(path: str) -> Iterator[IO[bytes]]:
    """Yield a file to write bytes to, which appears under its name when the block ends without an error.

    Two writers of the same path do not disturb each other; the last one to end wins.

    Args:
        path: the file to make; its folder is made too, and an existing file is replaced.
    """
    temporary = _temporary_name(path)
    make_dirs(os.path.dirname(path) or ".")
    try:
        with open_file(temporary, "wb") as f:
            yield f
        if is_remote(path):
            _gfile().rename(temporary, path, overwrite=True)
        else:
            os.replace(_local(temporary), _local(path))
    except BaseException:
        remove_tree(temporary)
        raise


@contextlib.contextmanager
def atomic_dir(path: str) -> Iterator[str]:
    """Yield a temporary sibling folder that replaces `path` when the block ends without an error.

    On an error the temporary folder is removed and `path` keeps what it had. Leftovers of killed writers are
    named `.NAME.*.partial` and never match a version or an artifact name.

    Args:
        path: the folder to make; an existing one is replaced.
    """
    temporary = _temporary_name(path)
    make_dirs(temporary)
    try:
        yield temporary
        if exists(path):
            remove_tree(path)
        rename(temporary, path)
        if not is_remote(path):
            _sync(os.path.dirname(_local(path).rstrip("/")) or ".")
    except BaseException:
        remove_tree(temporary)
        raise


def copy_file(source: str, destination: str) -> None:
    """Copy one file, atomically at the destination."""
    write_bytes(destination, read_bytes(source))


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


def total_size(path: str) -> int:
    """Return the bytes of a file, or of all files below a local folder."""
    root = Path(_local(path))
    if root.is_file():
        return root.stat().st_size
    return sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
