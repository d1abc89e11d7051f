"""Local files and folders, written under a temporary name and synced before they appear.

The temporary name is `.NAME.xxxxxxxx.partial`. Its writer holds a lock (flock), which the operating system
releases when the process dies. An unlocked one was left by a killed writer, and the next writer removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import IO, Any

from detection_core.errors import StorageError

_PARTIAL = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.partial", re.DOTALL)
_ONE_WRITER = "0" * 8
# From linux/fcntl.h and linux/fs.h.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# Errors of a failing disk or network file system. Any other error means that nothing is there.
_NO_ANSWER = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.ENOMEM)
_FOLDER_IN_THE_WAY = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def temporary_name(path: str) -> str:
    """Return a new temporary name beside `path`."""
    return _beside(path, uuid.uuid4().hex[:8])


def _beside(path: str, digits: str) -> str:
    folder, name = os.path.split(path.rstrip("/"))
    return os.path.join(folder, f".{name}.{digits}.partial")


def is_partial(name: str) -> bool:
    """Return whether a name has the form of `temporary_name`."""
    return _PARTIAL.fullmatch(name) is not None


def mode_of(path: str) -> int | None:
    """Return the mode of a path, links followed; None if nothing is there.

    Raises:
        OSError: when the disk or network file system fails, where `os.path.exists` returns False.
    """
    try:
        return os.stat(path).st_mode
    except OSError as e:
        if e.errno in _NO_ANSWER:
            raise
        return None


def is_dir(path: str) -> bool:
    """Return whether a path leads to a folder; errors as in `mode_of`."""
    return stat.S_ISDIR(mode_of(path) or 0)


def list_entries(path: str) -> tuple[list[str], list[str]]:
    """Return the sorted names of a folder's folders and files; links are followed."""
    folders: list[str] = []
    here: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                is_folder = entry.is_dir()
            except OSError:  # for example, a link to itself
                is_folder = False
            (folders if is_folder else here).append(entry.name)
    return sorted(folders), sorted(here)


def sizes(folder: str) -> dict[str, int]:
    """Return path and size of every file below a folder; empty if the folder is missing."""
    found: dict[str, int] = {}
    for name in sorted(os.listdir(folder)) if is_dir(folder) else ():
        path = os.path.join(folder, name)
        if is_dir(path):
            found |= {f"{name}/{below}": size for below, size in sizes(path).items()}
        else:
            found[name] = os.path.getsize(path)
    return found


def make_dirs(path: str) -> None:
    """Make a folder and its parents if missing."""
    try:
        os.makedirs(path, exist_ok=True)
    except FileNotFoundError as e:
        # For example in /proc, or if the current folder was removed.
        raise StorageError("expected a path where folders can be made, found none", where=path) from e


@contextlib.contextmanager
def partial_file(path: str) -> Iterator[IO[bytes]]:
    """Yield a file, which is synced and replaces `path` when the block succeeds.

    The file that a killed writer of the same path left is removed first. Without concurrent writers its name
    is fixed, so that no large folder has to be listed for each file. A device or a pipe is written directly.
    """
    if _is_special(path):
        with open(path, "wb") as f:
            yield f
        return
    make_dirs(os.path.dirname(path) or ".")
    usual = _beside(path, _ONE_WRITER)
    _remove_if_abandoned(usual)
    temporary, descriptor = _claimed(path, _make_file, usual)
    try:
        with os.fdopen(descriptor, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
            os.replace(temporary, path)
        sync(os.path.dirname(path) or ".")
    except BaseException:
        remove_tree(temporary)
        raise


@contextlib.contextmanager
def partial_dir(path: str) -> Iterator[str]:
    """Yield a folder, which is synced and replaces `path` when the block succeeds.

    Folders that killed writers of the same path left are removed first. Of concurrent writers, each replaces
    the previous one's folder.
    """
    path = os.path.realpath(path) if os.path.islink(path) else path.rstrip("/")
    parent = os.path.dirname(path) or "."
    make_dirs(parent)
    remove_leftovers(parent, os.path.basename(path))
    temporary, descriptor = _claimed(path, _make_folder)
    try:
        yield temporary
        sync_tree(temporary)
        _move_in(temporary, path)
        sync(parent)
    except BaseException:
        remove_tree(temporary)
        raise
    finally:
        os.close(descriptor)


def _is_special(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _make_file(temporary: str) -> int:
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _make_folder(temporary: str, mode: int = 0o777) -> int:
    os.mkdir(temporary, mode)
    return os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def claim_private_folder(path: str) -> tuple[str, int]:
    """Make a temporary folder beside `path`, which only this user may enter, and lock it.

    Returns:
        Its path, and the descriptor that holds the lock; the caller closes it.
    """
    return _claimed(path, functools.partial(_make_folder, mode=0o700))


def _claimed(path: str, make: Callable[[str], int], usual: str = "") -> tuple[str, int]:
    """Make and lock a temporary file or folder for `path`; return its name and descriptor.

    `make` creates and opens it. `usual` is the preferred name; "" or a name in use gives a new one.
    """
    while True:
        temporary, usual = usual or temporary_name(path), ""
        try:
            descriptor = make(temporary)
        except FileExistsError:
            continue
        except FileNotFoundError:
            # Another writer removed it before it was opened, unless the folder itself is gone.
            if not os.path.isdir(os.path.dirname(temporary) or "."):
                raise
            continue
        if _try_lock(descriptor) is not False and _is_still(temporary, descriptor):
            return temporary, descriptor
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool | None:
    """Try to lock; None if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_still(path: str, descriptor: int) -> bool:
    """Return whether the path still names the open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _move_in(temporary: str, path: str) -> None:
    """Replace a path by a folder, atomically where the system supports it.

    Elsewhere the old folder is renamed first, so the path is missing for a moment. Other writers may do the
    same meanwhile.
    """
    aside: list[str] = []
    while True:
        try:
            os.rename(temporary, path)
            break
        except OSError as e:
            if e.errno not in _FOLDER_IN_THE_WAY or not os.path.lexists(temporary):
                _put_back(aside, path)
                raise
        if _exchange(temporary, path):
            aside.append(temporary)  # after the exchange this is the old folder
            break
        with contextlib.suppress(FileNotFoundError):
            old = temporary_name(path)
            os.rename(path, old)
            aside.append(old)
    for old in aside:
        remove_tree(old)


def _exchange(one: str, other: str) -> bool:
    """Swap two paths with Linux' renameat2(2), which Python lacks; return False where unsupported."""
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    sys.audit("os.rename", one, other, -1, -1)
    here = ctypes.c_int(_AT_FDCWD)
    flags = ctypes.c_uint(_RENAME_EXCHANGE)
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), flags) == 0)


def _put_back(aside: list[str], path: str) -> None:
    for old in aside[-1:]:
        with contextlib.suppress(OSError):
            os.rename(old, path)


def remove_tree(path: str) -> None:
    """Remove a file, a link or a folder tree; ignore missing files."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, onerror=_unless_gone)
        else:
            os.remove(path)


def _unless_gone(function: Any, path: str, raised: Any) -> None:
    if not isinstance(raised[1], FileNotFoundError):
        raise raised[1]


def remove_leftovers(folder: str, name: str = "") -> int:
    """Remove unlocked partial files and folders of killed writers from a folder.

    Args:
        folder: searched without its subfolders.
        name: of the file or folder that was being written; "" for any.

    Returns:
        Number removed.
    """
    try:
        entries = [entry.path for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return 0
    partial = ((path, _PARTIAL.fullmatch(os.path.basename(path))) for path in entries)
    return sum(_remove_if_abandoned(path) for path, found in partial if found and name in ("", found["name"]))


def _remove_if_abandoned(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not _try_lock(descriptor):
            return False
        remove_tree(path)
        return True
    except PermissionError:
        # It belongs to another user, in a folder with the sticky bit.
        return False
    finally:
        os.close(descriptor)


def rename(source: str, destination: str) -> None:
    """Rename a file or folder, and sync so that the change survives a power cut."""
    os.rename(source, destination)
    for path in (destination, source):
        sync(os.path.dirname(path) or ".")


def sync(folder: str) -> None:
    """Sync a folder's entries, or a file's content, to survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: str) -> None:
    """Sync all files and folders below a folder."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                sync(path)
        sync(parent)


@contextlib.contextmanager
def lock(path: str, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock file, created if missing; the lock ends with its holder's process.

    Its folder must exist. Nothing is ever written to the file.

    Raises:
        BlockingIOError: when another process holds it and `wait` is False.
        StorageError: when the path is not a lock file.
    """
    descriptor = _locked(path, wait=wait)
    try:
        yield
    finally:
        os.close(descriptor)


def is_locked(path: str) -> bool:
    """Return whether a lock file is held.

    Raises:
        OSError: when this cannot be determined, for instance without free descriptors.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return _try_lock(descriptor) is False
    finally:
        os.close(descriptor)


def _locked(path: str, *, wait: bool) -> int:
    while True:
        try:
            # A link could lead to another user's file.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as e:
            if e.errno not in (errno.ELOOP, errno.EISDIR):
                raise
            found = "a link" if e.errno == errno.ELOOP else "a folder"
            raise StorageError(f"expected a lock file, found {found}; remove it", where=path) from e
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # A lock on a file that was removed while waiting is worthless.
            if _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
