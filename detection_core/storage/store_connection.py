"""How a process is connected to an object store: what each store has to say, and its errors in our terms."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import datetime
import errno
import importlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from detection_core.errors import ConfigError, DataError, DetectionError

_connected: dict[tuple[Any, ...], Any] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredObject:
    """What a store tells of an object without sending it.

    Attributes:
        key: its name in the bucket.
        size: in bytes.
        etag: changes with the content: a checksum where the store has one.
        version: changes with every write; what a conditional write refers to.
        age: seconds since it was written, by the store's own clock; 0 in a listing.
    """

    key: str
    size: int
    etag: str
    version: str
    age: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listing:
    """One page of a listing.

    Attributes:
        objects: what begins with the prefix.
        folders: what lies further down, cut at the next slash, without it; empty in a listing of everything.
    """

    objects: Sequence[StoredObject]
    folders: Sequence[str] = ()


class StoreConnection(abc.ABC):
    """What one store says of itself, and the file system of fsspec that sends its requests.

    Attributes:
        schemes: what its paths begin with; the first is what messages name.
        extra: of detflow, that installs what it needs.
        module: the fsspec implementation.
        sign_in: which variables and files the credentials come from, for messages.
        opened_by_tensorflow: whether tf.io.gfile and tf.data open its paths themselves.
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
        """Return what a connection depends on."""

    @abc.abstractmethod
    def _connect(self) -> Any:
        """Return a new fsspec file system that caches no listing."""

    @abc.abstractmethod
    def _pages(self, prefix: str, bucket: str, *, deep: bool, limit: int = 0) -> Iterator[Listing]:
        """Yield the listing of what begins with a prefix, with all below it or one level only."""

    @abc.abstractmethod
    def _head(self, bucket: str, key: str) -> StoredObject:
        """Return the metadata of an object."""

    @abc.abstractmethod
    def _write_if(self, bucket: str, key: str, data: bytes, version: str) -> str:
        """Write an object if it has a version still, or with "" if there is none; return its new version."""

    @abc.abstractmethod
    def _translate(self, error: Exception, path: str) -> Exception | None:
        """Return what an error of the client means in our terms; None for one that is not the store's."""

    @property
    def file_system(self) -> Any:
        """The fsspec file system of this process; a forked one makes its own.

        Raises:
            ConfigError: when its package is missing or a variable cannot be used.
        """
        key = (os.getpid(), type(self), *self._settings())
        if key not in _connected:
            # Of two threads that come at once both take the first one's.
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
        """Turn the client's errors into ours."""
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
        """Return the key that a path stands for, without the bucket."""
        return self._split(path)[1]

    def _name(self, path: str) -> str:
        """Return what fsspec calls an object."""
        return "/".join(self._split(path))


def seconds_between(written: datetime.datetime, date: str | None) -> float:
    """Return the seconds from a write to the Date of an answer, or to now where it has no Date."""
    from email.utils import parsedate_to_datetime  # of a package that takes a while to import

    now = parsedate_to_datetime(date) if date else datetime.datetime.now(datetime.UTC)
    return (now - written).total_seconds()


def missing(path: str) -> FileNotFoundError:
    """Return the error for an object or folder that is not there."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def taken(path: str) -> FileExistsError:
    """Return the error for a conditional write whose condition did not hold."""
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
