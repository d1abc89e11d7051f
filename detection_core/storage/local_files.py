"""The local disk as a store.

Files and folders are written under a temporary name, and synced before they appear.
"""

import contextlib
import errno
import glob
import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from detection_core.errors import StorageError
from detection_core.storage import local_lock

# From linux/fcntl.h and linux/fs.h.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# Errors of a failing disk or network file system. Any other error means that nothing is there.
_NO_ANSWER = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.ENOMEM)
_FOLDER_IN_THE_WAY = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_PIECE_BYTES = 1 << 20


class LocalDisk:
    """The files of this machine; `files` documents the methods that every store has."""

    # Listing

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists, links followed; OSError when the file system fails."""
        return _mode_of(path) is not None

    def is_dir(self, path: str) -> bool:
        """Return whether a path leads to a folder; errors as in `exists`."""
        return stat.S_ISDIR(_mode_of(path) or 0)

    def list_entries(self, path: str) -> tuple[list[str], list[str]]:
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

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern."""
        return glob.glob(pattern, recursive=True)

    def sizes(self, folder: str) -> dict[str, int]:
        """Return path and size of every file below a folder; empty if the folder is missing."""
        found: dict[str, int] = {}
        for name in sorted(os.listdir(folder)) if self.is_dir(folder) else ():
            path = os.path.join(folder, name)
            if self.is_dir(path):
                found |= {f"{name}/{below}": size for below, size in self.sizes(path).items()}
            else:
                found[name] = os.path.getsize(path)
        return found

    def states(self, path: str) -> Iterator[str]:
        """Yield path, size and time of each file at or below a path."""
        if not os.path.isdir(path):
            yield f"/ {_state(path)}"
            return
        for folder, folders, names in os.walk(path):
            folders.sort()
            below = os.path.relpath(folder, path)
            yield from (f"{below}/{name} {_state(os.path.join(folder, name))}" for name in sorted(names))

    # Reading

    def open_regular(self, path: str, limit: int = sys.maxsize) -> IO[bytes]:
        """Open a regular file of at most `limit` bytes.

        Raises:
            OSError: also with EINVAL for other kinds of files, EFBIG for a too large one.
        """
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

    def read(self, path: str) -> bytes:
        """Read a file."""
        with open(path, "rb") as file:
            return file.read()

    def content_state(self, path: str) -> str:
        """Return the checksum of a regular file."""
        with self.open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type] # a raw file

    def read_into(self, out: IO[bytes], path: str, most_bytes: int = sys.maxsize) -> None:
        """Copy a regular file into another; errors as in `open_regular`."""
        with self.open_regular(path, most_bytes) as file:
            shutil.copyfileobj(file, out, _PIECE_BYTES)

    # Writing

    def make_dirs(self, path: str) -> None:
        """Make a folder and its parents if missing."""
        try:
            os.makedirs(path, exist_ok=True)
        except FileNotFoundError as e:
            # For example in /proc, or if the current folder was removed.
            raise StorageError("expected a path where folders can be made, found none", where=path) from e

    @contextlib.contextmanager
    def atomic_file(self, path: str) -> Iterator[IO[bytes]]:
        """Yield a file, which is synced and replaces `path` when the block succeeds.

        The file that a killed writer of the same path left is removed first. Without concurrent writers its
        name is fixed, so that no large folder has to be listed for each file. A device or a pipe is written
        directly.
        """
        mode = _mode_of(path)
        if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            with open(path, "wb") as f:
                yield f
            return
        self.make_dirs(os.path.dirname(path) or ".")
        self._remove_if_abandoned(local_lock.usual_name(path))
        temporary, descriptor = local_lock.claim_file(path)
        try:
            with os.fdopen(descriptor, "wb") as f:
                yield f
                f.flush()
                os.fsync(f.fileno())
                os.replace(temporary, path)
            _sync(os.path.dirname(path) or ".")
        except BaseException:
            self.remove_tree(temporary)
            raise

    @contextlib.contextmanager
    def atomic_dir(self, path: str) -> Iterator[str]:
        """Yield a folder, which is synced and replaces `path` when the block succeeds.

        Folders that killed writers of the same path left are removed first. Of concurrent writers, each
        replaces the previous one's folder.
        """
        path = os.path.realpath(path) if os.path.islink(path) else path.rstrip("/")
        parent = os.path.dirname(path) or "."
        self.make_dirs(parent)
        self.remove_leftovers(parent, os.path.basename(path))
        temporary, descriptor = local_lock.claim_folder(path)
        try:
            yield temporary
            _sync_tree(temporary)
            self._move_in(temporary, path)
            _sync(parent)
        except BaseException:
            # A process that knows of no error may still write here. The next writer removes the rest.
            with contextlib.suppress(OSError):
                self.remove_tree(temporary)
            raise
        finally:
            os.close(descriptor)

    def rename(self, source: str, destination: str) -> None:
        """Rename a file or folder, and sync so that the change survives a power cut."""
        os.rename(source, destination)
        for path in (destination, source):
            _sync(os.path.dirname(path) or ".")

    def remove_tree(self, path: str) -> None:
        """Remove a file, a link or a folder tree; ignore missing files."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, onerror=_unless_gone)
            else:
                os.remove(path)

    def remove_leftovers(self, folder: str, name: str = "") -> None:
        """Remove unlocked partial files and folders of killed writers from a folder, of a name or of any."""
        names = os.listdir(folder) if self.is_dir(folder) else ()
        for found in filter(None, map(local_lock.PARTIAL.fullmatch, names)):
            if name in ("", found["name"]):
                self._remove_if_abandoned(os.path.join(folder, found.string))

    def _remove_if_abandoned(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        try:
            # One may belong to another user, in a folder with the sticky bit, or still be written to.
            with contextlib.suppress(OSError):
                if local_lock.try_lock(descriptor):
                    self.remove_tree(path)
        finally:
            os.close(descriptor)

    def _move_in(self, temporary: str, path: str) -> None:
        """Replace a path by a folder, atomically where the system supports it.

        Elsewhere the old folder is renamed first, so the path is missing for a moment. Other writers may do
        the same meanwhile.
        """
        aside: list[str] = []
        while True:
            try:
                os.rename(temporary, path)
                break
            except OSError as e:
                if e.errno not in _FOLDER_IN_THE_WAY or not os.path.lexists(temporary):
                    for old in aside[-1:]:
                        with contextlib.suppress(OSError):
                            os.rename(old, path)
                    raise
            if _exchange(temporary, path):
                aside.append(temporary)  # after the exchange this is the old folder
                break
            with contextlib.suppress(FileNotFoundError):
                old = local_lock.temporary_name(path)
                os.rename(path, old)
                aside.append(old)
        for old in aside:
            self.remove_tree(old)

    @contextlib.contextmanager
    def exclusive(self, path: str) -> Iterator[Callable[[], None]]:
        """Hold a lock file, which ends with its holder's process and is never lost."""
        with local_lock.lock(path):
            yield lambda: None


LOCAL_DISK = LocalDisk()


def _mode_of(path: str) -> int | None:
    """Return the mode of a path, links followed; None if nothing is there."""
    try:
        return os.stat(path).st_mode
    except OSError as e:
        if e.errno in _NO_ANSWER:
            raise
        return None


def _state(path: str) -> str:
    try:
        state = os.stat(path)
    except OSError:  # a broken link
        return "missing"
    return f"{state.st_size} {state.st_mtime_ns}"


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


def _unless_gone(function: Any, path: str, raised: Any) -> None:
    if not isinstance(raised[1], FileNotFoundError):
        raise raised[1]


def _sync(path: str) -> None:
    """Sync a folder's entries, or a file's content, to survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_tree(folder: str) -> None:
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                _sync(path)
        _sync(parent)
