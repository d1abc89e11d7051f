"""A lock on an object store: an object that its holder renews by conditional writes.

Acquiring, renewing, taking over and releasing are each one write on the condition of the previous version.
The conditions are If-Match and If-None-Match on S3 and Azure, ifGenerationMatch on Google Cloud Storage. So
of two concurrent writers, one is refused.
"""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from detection_core.errors import DataError, StorageError

if TYPE_CHECKING:
    from detection_core.storage.object_store import ObjectStore

_logger = logging.getLogger(__name__)

# A holder renews its lock every 30 seconds; after 5 minutes without renewal a lock is stale. The difference
# leaves time for a request that is retried until it fails.
_RENEW_SECONDS = 30.0
_STALE_SECONDS = 300.0
_WAIT_SECONDS = 1.0
# Prefix of a free lock. The object is never removed, because not every server supports a conditional
# DeleteObject. An unconditional one could remove another holder's lock.
_FREE = b"free "


@contextlib.contextmanager
def lock(store: "ObjectStore", path: str) -> Iterator[Callable[[], None]]:
    """Hold an object of a store as a lock; take over a stale one.

    After release the object stays, marked as free.

    Yields:
        A function that renews the lock at once, and raises a StorageError when another process holds it.
    """
    held = _Held(store, path, _acquire(store, path))
    renewer = threading.Thread(target=held.keep_renewing, name="renew-lock", daemon=True)
    renewer.start()
    try:
        yield held.renew
    finally:
        held.release()
        renewer.join()


def _acquire(store: "ObjectStore", path: str) -> str:
    """Wait until the lock is acquired; return the version of the written object."""
    warned = False
    while True:
        version = store.write_if(path, unique_content()) or _take_over(store, path)
        if version:
            return version
        if not warned:
            _logger.warning("%s: another process holds this lock; waiting until it is released", path)
            warned = True
        time.sleep(_WAIT_SECONDS)


def unique_content(prefix: bytes = b"") -> bytes:
    """Return content for a lock that was never written before."""
    # On S3 equal contents have equal ETags, so a condition would miss a change of holders.
    return prefix + uuid.uuid4().hex.encode()


def _take_over(store: "ObjectStore", path: str) -> str | None:
    """Take a free or stale lock; None if it is held, or another process was faster."""
    state = store.read_state(path)
    if state is None:
        return None
    found, content = state
    if not content.startswith(_FREE):
        if found.age <= _STALE_SECONDS:
            return None
        _logger.warning("%s: this lock is stale; taking it over", path)
    return store.write_if(path, unique_content(), found.version)


class _Held:
    def __init__(self, store: "ObjectStore", path: str, version: str) -> None:
        self._store, self._path = store, path
        self._version: str | None = version
        self._unanswered: set[bytes] = set()
        self._writing = threading.Lock()
        self._over = threading.Event()

    def renew(self) -> None:
        """Write the lock again. Raises StorageError when another process has taken it over."""
        with self._writing:
            if self._version is not None:
                self._version = self._write(unique_content(), self._version)
            if self._version is None:
                raise StorageError(
                    "expected to hold this lock, found that another writer took it over; run again:"
                    " finished work is kept",
                    where=self._path,
                )

    def keep_renewing(self) -> None:
        """Renew the lock at intervals until it is released or lost."""
        while not self._over.wait(_RENEW_SECONDS):
            try:
                self.renew()
            except StorageError:
                return  # the holder's next `renew` raises
            except DataError as e:
                _logger.warning("%s: the lock could not be renewed; trying again: %s", self._path, e)

    def release(self) -> None:
        """Mark the lock as free, unless another process has taken it over.

        Errors of the store are only logged, because the work under the lock is already done.
        """
        self._over.set()
        with self._writing:
            if self._version is not None:
                try:
                    self._write(unique_content(_FREE), self._version)
                except DataError as e:
                    _logger.warning("%s: the lock could not be released: %s", self._path, e)

    def _write(self, content: bytes, version: str) -> str | None:
        """Write the lock if this process still holds it; return its new version, or None.

        A write whose answer was lost may have changed the version. Its content identifies it as ours.
        """
        self._unanswered.add(content)  # until the store answers
        written = self._store.write_if(self._path, content, version)
        if written is None:
            found = self._store.read_state(self._path)
            if found and found[1] in self._unanswered:
                written = self._store.write_if(self._path, content, found[0].version)
        self._unanswered.clear()
        return written
