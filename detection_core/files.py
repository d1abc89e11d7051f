"""Files and folders, local or on an object store; the only user of tf.io.gfile.

Local paths never import TensorFlow, so that light steps stay light. `s3://` goes through boto3, a path with
another scheme (`gs://...`) through tf.io.gfile. Whatever another process may read is written under a
temporary name and renamed in, or, as S3 has it, appears whole when its last byte is there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import fnmatch
import glob as _glob
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from detection_core import s3
from detection_core.errors import ConfigError


def is_remote(path: str) -> bool:
    """Tell whether the path names an object store or another scheme than the local file system."""
    return "://" in path and not path.startswith("file://")


def _gfile(path: str) -> Any:
    """Return what serves a remote path: tf.io.gfile, or a module with the same functions."""
    if s3.is_s3(path):
        return s3
    import tensorflow as tf

    return tf.io.gfile


def _local(path: str) -> str:
    """Return a local path as the operating system takes it.

    Raises:
        ConfigError: for text that no file can be called.
    """
    path = path.removeprefix("file://")
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ConfigError(
            f"expected a path, found {path!a:.120}, which no file can have: it holds a null character or half"
            " of a character"
        )
    return path


def open_file(path: str, mode: str = "r") -> IO[Any]:
    """Open a file; the caller closes it. Text is UTF-8.

    Raises:
        OSError: (or tf.errors.OpError for a remote path) when it cannot be opened.
    """
    if is_remote(path):
        return _gfile(path).GFile(path, mode)
    return open(_local(path), mode, encoding=None if "b" in mode else "utf-8")


def read_text(path: str) -> str:
    """Return the whole file as text."""
    with open_file(path) as f:
        return str(f.read())


def read_bytes(path: str) -> bytes:
    """Return the whole file as bytes."""
    with open_file(path, "rb") as f:
        return bytes(f.read())


def read_regular(path: str, limit: int) -> bytes:
    """Return the whole file as bytes, if it is a regular one of bounded size.

    For files whose names arrive with the data: a named pipe would block for ever, a device never end.

    Args:
        path: local or remote.
        limit: bytes above which it is not read.

    Raises:
        OSError: when it cannot be opened; with EINVAL when it is no regular file, EFBIG when it is too large.
    """
    if is_remote(path):
        if not exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return read_bytes(path)
    descriptor = os.open(_local(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "expected a regular file", path)
        if state.st_size > limit:
            raise OSError(errno.EFBIG, f"expected at most {limit:,} bytes, found {state.st_size:,}", path)
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def exists(path: str) -> bool:
    """Tell whether a file or folder is there."""
    return bool(_gfile(path).exists(path)) if is_remote(path) else os.path.exists(_local(path))


def is_dir(path: str) -> bool:
    """Tell whether a folder is there."""
    return bool(_gfile(path).isdir(path)) if is_remote(path) else os.path.isdir(_local(path))


def list_dir(path: str) -> list[str]:
    """Return the sorted names in a folder."""
    names = _gfile(path).listdir(path) if is_remote(path) else os.listdir(_local(path))
    return sorted(name.rstrip("/") for name in names)


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
    return sorted(_gfile(pattern).glob(pattern) if is_remote(pattern) else _glob.glob(_local(pattern)))


def make_dirs(path: str) -> None:
    """Make a folder and its parents; one that exists is left as it is."""
    if is_remote(path):
        _gfile(path).makedirs(path)
    else:
        os.makedirs(_local(path), exist_ok=True)


def remove_tree(path: str) -> None:
    """Remove a file or folder with all below it; one that is missing is no error."""
    if not exists(path):
        return
    if is_remote(path):
        _gfile(path).rmtree(path) if is_dir(path) else _gfile(path).remove(path)
    elif os.path.isdir(_local(path)):
        shutil.rmtree(_local(path))
    else:
        os.remove(_local(path))


def rename(source: str, destination: str) -> None:
    """Rename a file or folder; atomic on a local file system."""
    if is_remote(source):
        _gfile(source).rename(source, destination)
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
    if s3.is_s3(path):
        with open_file(path, "wb") as f:
            f.write(data)
        return
    temporary = _temporary_name(path)
    make_dirs(os.path.dirname(path) or ".")
    if is_remote(path):
        with _gfile(temporary).GFile(temporary, "wb") as f:
            f.write(data)
        _gfile(temporary).rename(temporary, path, overwrite=True)
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
    if s3.is_s3(path):
        with open_file(path, "wb") as f:
            yield f
        return
    temporary = _temporary_name(path)
    make_dirs(os.path.dirname(path) or ".")
    try:
        with open_file(temporary, "wb") as f:
            yield f
        if is_remote(path):
            _gfile(temporary).rename(temporary, path, overwrite=True)
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
    with open_file(source, "rb") as here, atomic_file(destination) as there:
        shutil.copyfileobj(here, there, 1 << 20)


def download(source: str, local_path: str) -> None:
    """Copy one file to a local path that nobody reads yet."""
    if s3.is_s3(source):
        s3.download(source, local_path)
        return
    with open_file(source, "rb") as here, open(local_path, "wb") as there:
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


def states(path: str) -> list[str]:
    """Return a line for each object at or below a remote path, which changes when the object does.

    S3 tells sizes and checksums in its listing; of other stores only the names in the folder are known.
    """
    if s3.is_s3(path):
        return [f"{e['Key']} {e['Size']} {e['ETag']}" for e in s3.objects(path)]
    return list_dir(path)


@contextlib.contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Hold a lock file for one writer at a time, in a folder that exists; others wait.

    A local lock goes when its holder dies; on S3 after a quarter of an hour. Other stores have none: what is
    written there under a unique name has to do.
    """
    if s3.is_s3(path):
        with s3.lock(path):
            yield
    elif is_remote(path):
        yield
    else:
        with open(_local(path), "w", encoding="utf-8") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield


def total_size(path: str) -> int:
    """Return the bytes of a file, or of all files below a local folder."""
    root = Path(_local(path))
    if root.is_file():
        return root.stat().st_size
    return sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
