"""The connection of a process to an object store: each store's settings and translated errors."""

import abc
import contextlib
import dataclasses
import datetime
import errno
import importlib
import os
from collections.abc import Iterator
from typing import Any, ClassVar

from detection_core.errors import ConfigError, DataError, DetectionError

_connected: dict[tuple[Any, ...], Any] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredObject:
    """Metadata of an object.

    Attributes:
        key: its name in the bucket.
        size: in bytes.
        etag: changes with the content; a checksum if the store has one.
        version: changes with every write; the condition of conditional writes.
        age: seconds since it was written, by the store's clock; 0 in a listing.
    """

    key: str
    size: int
    etag: str
    version: str
    age: float = 0.0


Entry = StoredObject | str
"""An object of a listing, or the prefix of deeper ones."""


class StoreConnection(abc.ABC):
    """Properties of a store, and the fsspec file system that sends its requests.

    Attributes:
        schemes: URI schemes of its paths; messages use the first.
        extra: detflow's extra that installs its dependencies.
        module: module of the fsspec implementation.
        sign_in: variables and files of the credentials, for messages.
        opened_by_tensorflow: whether tf.io.gfile and tf.data open its paths.
    """

    schemes: ClassVar[tuple[str, ...]]
    extra: ClassVar[str]
    module: ClassVar[str]
    sign_in: ClassVar[str]

    @property
    def opened_by_tensorflow(self) -> bool:
        """Whether TensorFlow opens its paths."""
        return False

    @abc.abstractmethod
    def _settings(self) -> tuple[str, ...]:
        """Return the values that a connection depends on."""

    @abc.abstractmethod
    def _connect(self) -> Any:
        """Return a new fsspec file system without a listing cache."""

    @abc.abstractmethod
    def _entries(self, prefix: str, bucket: str, *, deep: bool, limit: int = 0) -> Iterator[Entry]:
        """Yield the objects with a prefix; unless deep, deeper ones as a prefix up to the next slash.

        `limit` is the number that one request asks for; 0: the store's default.
        """

    @abc.abstractmethod
    def _head(self, bucket: str, key: str) -> StoredObject:
        """Return the metadata of an object."""

    @abc.abstractmethod
    def _write_if(self, bucket: str, key: str, data: bytes, version: str) -> str:
        """Write an object if its version is `version`, or if missing for ""; return the new version."""

    @abc.abstractmethod
    def _translate(self, error: Exception, path: str) -> Exception | None:
        """Translate a client's error to one of ours; None if it is not from the store."""

    @property
    def file_system(self) -> Any:
        """The fsspec file system of this process; ConfigError without its package, or for a bad variable."""
        key = (os.getpid(), type(self), *self._settings())
        if key not in _connected:
            # Concurrent threads share the first file system.
            _connected.setdefault(key, self._connect())
        return _connected[key]

    def _import(self, module: str = "") -> Any:
        try:
            return importlib.import_module(module or self.module)
        except ImportError as e:
            raise ConfigError(
                f"expected {self.module} for {self.schemes[0]}:// paths, found none; install it with"
                f" `pip install 'detflow[{self.extra}]'`"
            ) from e

    @contextlib.contextmanager
    def _answering(self, path: str) -> Iterator[None]:
        """Translate the client's errors to ours."""
        try:
            yield
        except DetectionError:
            raise
        except Exception as e:
            translated = self._translate(e, path)
            if translated is None:
                raise
            raise translated from e

    def _refused(self, path: str, reason: str) -> DataError:
        return DataError(
            f"expected access to the object store, found {reason}; check the bucket's name, the credentials"
            f" ({self.sign_in}) and their rights",
            where=path,
        )

    def _unanswered(self, path: str, error: Exception, endpoint: str, variable: str) -> DataError:
        return DataError(
            f"expected an answer from the object store ({endpoint}), found none: {error}; check {variable},"
            " the network and the credentials, then run again: what is finished is kept",
            where=path,
        )

    def _split(self, path: str) -> tuple[str, str]:
        bucket, _, key = path.partition("://")[2].partition("/")
        return bucket, key.rstrip("/")

    def key_of(self, path: str) -> str:
        """Return the key of a path, without the bucket."""
        return self._split(path)[1]

    def _name(self, path: str) -> str:
        return "/".join(self._split(path))


def seconds_between(written: datetime.datetime, date: str | None) -> float:
    """Return the seconds from a write to a response's Date, or to now without a Date."""
    from email.utils import parsedate_to_datetime  # this package is slow to import

    now = parsedate_to_datetime(date) if date else datetime.datetime.now(datetime.UTC)
    return (now - written).total_seconds()


def missing(path: str) -> FileNotFoundError:
    """Return the error for a missing object or folder."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def taken(path: str) -> FileExistsError:
    """Return the error for a failed condition of a write."""
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
