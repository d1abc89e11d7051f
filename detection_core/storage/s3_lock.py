"""A lock on an object store: an object that its holder renews, and that only conditional writes change.

Taking, renewing, taking over and letting go are each one write that depends on what was there before
(If-Match and If-None-Match of PutObject), so that of two that try at a time one is refused.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator

from detection_core.errors import DataError, StorageError
from detection_core.storage import s3

_logger = logging.getLogger(__name__)

# A holder renews its lock this often; one that has not for so long was killed. Between the two there is room
# for a request that is tried again until it fails.
_RENEW_SECONDS = 30.0
_STALE_SECONDS = 300.0
_WAIT_SECONDS = 1.0
# What a lock begins with that nobody holds. Removing the object instead could not be made to depend on who
# holds it: not every server knows a conditional DeleteObject.
_FREE = b"free "


@contextlib.contextmanager
def lock(path: str) -> Iterator[Callable[[], None]]:
    """Hold an object as a lock; one that was not renewed for some minutes is taken over.

    Args:
        path: the object. It stays when nobody holds the lock, and then says so.

    Yields:
        What renews the lock at once, and raises a StorageError when somebody else has it by now.
    """
    held = _Held(path, _acquire(path))
    renewer = threading.Thread(target=held.keep_renewing, name="renew-lock", daemon=True)
    renewer.start()
    try:
        yield held.renew
    finally:
        held.let_go()
        renewer.join()


def _acquire(path: str) -> str:
    """Wait until the lock can be taken; return the ETag of what was written to it."""
    told = False
    while True:
        etag = s3.write_if(path, _unique(), IfNoneMatch="*") or _take_over(path)
        if etag:
            return etag
        if not told:
            _logger.warning("%s: somebody holds this lock; waiting for them to let go", path)
            told = True
        time.sleep(_WAIT_SECONDS)


def _unique(prefix: bytes = b"") -> bytes:
    # Equal contents have equal ETags: a condition would not see that the lock changed hands meanwhile.
    return prefix + uuid.uuid4().hex.encode()


def _take_over(path: str) -> str | None:
    """Take a lock that nobody holds, or whose holder is gone; None: somebody holds it, or was quicker."""
    found = s3.read_state(path)
    if found is None:
        return None
    if not found.content.startswith(_FREE):
        if found.age <= _STALE_SECONDS:
            return None
        _logger.warning("%s: its holder is gone; taking the lock over", path)
    return s3.write_if(path, _unique(), IfMatch=found.etag)


class _Held:
    """A lock that this process holds."""

    def __init__(self, path: str, etag: str) -> None:
        self._path = path
        self._etag: str | None = etag
        self._writing = threading.Lock()
        self._over = threading.Event()

    def renew(self) -> None:
        """Write the lock anew.

        Raises:
            StorageError: when somebody else has taken it over.
        """
        with self._writing:
            if self._etag is not None:
                self._etag = s3.write_if(self._path, _unique(), IfMatch=self._etag)
            if self._etag is None:
                raise StorageError(
                    "expected to hold this lock still, found that another writer took it over while this one"
                    " stood still; run again: what is finished is kept",
                    where=self._path,
                )

    def keep_renewing(self) -> None:
        """Renew the lock now and then until it is let go or lost."""
        while not self._over.wait(_RENEW_SECONDS):
            try:
                self.renew()
            except StorageError:
                return  # the holder is told before its next step that others see
            except DataError as e:
                _logger.warning("%s: the lock could not be renewed; trying again: %s", self._path, e)

    def let_go(self) -> None:
        """Say that nobody holds the lock; one that was lost is left to its new holder."""
        self._over.set()
        with self._writing:
            if self._etag is not None:
                s3.write_if(self._path, _unique(_FREE), IfMatch=self._etag)
