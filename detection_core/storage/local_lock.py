"""Locks of files on this machine (flock), and temporary names that their writers lock.

The temporary name is `.NAME.xxxxxxxx.partial`. Its writer holds a lock, which the operating system releases
when the process dies. An unlocked one was left by a killed writer, and the next writer removes it.
"""

import contextlib
import errno
import fcntl
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator

from detection_core.errors import StorageError

_logger = logging.getLogger(__name__)

PARTIAL = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.partial", re.DOTALL)
_ONE_WRITER = "0" * 8


def temporary_name(path: str, digits: str = "") -> str:
    """Return a temporary name beside `path`, a new one unless its `digits` are given."""
    folder, name = os.path.split(path.rstrip("/"))
    return os.path.join(folder, f".{name}.{digits or uuid.uuid4().hex[:8]}.partial")


def usual_name(path: str) -> str:
    """Return the temporary name beside `path` of a file that has no concurrent writers."""
    return temporary_name(path, _ONE_WRITER)


def claim_file(path: str) -> tuple[str, int]:
    """Make and lock a temporary file for `path`, under its `usual_name` unless that is in use.

    Returns:
        Its path, and the descriptor to write to, which holds the lock; the caller closes it.
    """

    def make(temporary: str) -> int:
        return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    return _claimed(path, make, usual_name(path))


def claim_folder(path: str, mode: int = 0o777) -> tuple[str, int]:
    """Make and lock a temporary folder beside `path`.

    Returns:
        Its path, and the descriptor that holds the lock; the caller closes it.
    """

    def make(temporary: str) -> int:
        os.mkdir(temporary, mode)
        return os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    return _claimed(path, make)


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
        if try_lock(descriptor) is not False and _is_still(temporary, descriptor):
            return temporary, descriptor
        os.close(descriptor)


def try_lock(descriptor: int) -> bool | None:
    """Try to lock; None if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_still(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def lock(path: str, busy: str | Exception = "") -> Iterator[None]:
    """Hold a lock file, created with its folder if missing; the lock ends with its holder's process.

    While another process holds it, wait. `busy` is then logged first, or raised if it is an exception.
    Nothing is ever written to the file.

    Raises:
        StorageError: when the path is not a lock file.
    """
    descriptor = _locked(path, busy)
    try:
        yield
    finally:
        os.close(descriptor)


def is_locked(path: str) -> bool:
    """Return whether a lock file is held; OSError when unknown, for instance without free descriptors."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return try_lock(descriptor) is False
    finally:
        os.close(descriptor)


def _locked(path: str, busy: str | Exception) -> int:
    while True:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        try:
            # A link could lead to another user's file.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as e:
            if e.errno not in (errno.ELOOP, errno.EISDIR):
                raise
            found = "a link" if e.errno == errno.ELOOP else "a folder"
            raise StorageError(f"expected a lock file, found {found}; remove it", where=path) from e
        try:
            if try_lock(descriptor) is False:
                if isinstance(busy, Exception):
                    raise busy
                if busy:
                    _logger.warning("%s: %s", path, busy)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A lock on a file that was removed while waiting is worthless.
            if _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
