"""Operations common to all object stores, with fsspec: S3, Google Cloud Storage, Azure Blob Storage.

An object is written completely or not at all; a folder is only a prefix of object names. A store's subclass
of `StoreConnection` signs in, lists, describes an object and does conditional writes. For these, fsspec has
no call, or makes additional requests to guess whether a path is a folder.
"""

import concurrent.futures
import contextlib
import errno
import fnmatch
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, ClassVar

from detection_core.errors import DataError
from detection_core.storage import store_lock
from detection_core.storage.local_lock import PARTIAL, temporary_name
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.storage.store_connection import StoreConnection, StoredObject, missing

_WILD = re.compile(r"[*?\[]")
# Size of a large object's parts, and numbers of concurrent parts and of concurrent requests.
PART_BYTES = 8 << 20
PARTS_AT_ONCE = 8
_REQUESTS_AT_ONCE = 32


class ObjectStore(StoreConnection):
    """The objects of one scheme, safe for threads and forked processes.

    Every method raises a DataError when the store does not answer. Methods that need an existing object or
    folder raise a FileNotFoundError when it is missing.
    """

    # fsspec splits a large read into requests that may see different versions.
    _read_options: ClassVar[dict[str, Any]] = {}

    # Listing

    def objects(self, path: str) -> list[StoredObject]:
        """Return a path's own object, or all objects below it, sorted by key."""
        bucket, key = self._split(path)
        with self._answering(path):
            entries = self._entries(f"{key}/" if key else "", bucket, deep=True)
            found = [entry for entry in entries if isinstance(entry, StoredObject)]
        if not found and key:
            with contextlib.suppress(FileNotFoundError):
                found = [self.head(path)]
        return sorted((e for e in found if not e.key.endswith("/")), key=lambda e: e.key)

    def sizes(self, folder: str) -> dict[str, int]:
        """Return path and size of every object below a folder."""
        skip = len(self.key_of(folder)) + 1
        return {e.key[skip:]: e.size for e in self.objects(folder) if e.key[skip:]}

    def list_entries(self, path: str) -> tuple[list[str], list[str]]:
        """Return the sorted names of a folder's folders and objects; without any it is missing."""
        bucket, key = self._split(path)
        prefix = f"{key}/" if key else ""
        with self._answering(path):
            entries = list(self._entries(prefix, bucket, deep=False))
        if not entries:
            raise missing(path)
        here = [entry.key[len(prefix) :] for entry in entries if isinstance(entry, StoredObject)]
        folders = [entry[len(prefix) :].rstrip("/") for entry in entries if isinstance(entry, str)]
        return sorted(filter(None, folders)), sorted(filter(None, here))

    def states(self, path: str) -> Iterator[str]:
        """Yield key, size and ETag of each object at or below a path."""
        return (f"{e.key} {e.size} {e.etag}" for e in self.objects(path))

    def content_state(self, path: str) -> str:
        """Return size and ETag of an object."""
        found = self.head(path)
        return f"{found.size} {found.etag}"

    def glob(self, pattern: str) -> list[str]:
        """Return the objects and folders that match a pattern, part by part as in a file system.

        Only folders that match so far are listed.
        """
        scheme, _, rest = pattern.rstrip("/").partition("://")
        bucket, *parts = rest.split("/")
        found, part = [f"{scheme}://{bucket}"], ""
        for part in parts:
            if _WILD.search(part):
                pairs = ((path, name) for path in found for name in self._names(path))
                found = [f"{path}/{name}" for path, name in pairs if fnmatch.fnmatchcase(name, part)]
            else:
                found = [f"{path}/{part}" for path in found]
        return sorted(found if _WILD.search(part) else filter(self.exists, found))

    def _names(self, path: str) -> list[str]:
        """Return the names in a folder; none if it is missing."""
        try:
            return list(itertools.chain(*self.list_entries(path)))
        except FileNotFoundError:
            return []

    def head(self, path: str) -> StoredObject:
        """Return the metadata of an object."""
        with self._answering(path):
            return self._head(*self._split(path))

    def exists(self, path: str) -> bool:
        """Return whether a path is an object, or a folder with objects below it."""
        if self.key_of(path):
            with contextlib.suppress(FileNotFoundError):
                self.head(path)
                return True
        return self.is_dir(path)

    def is_dir(self, path: str) -> bool:
        """Return whether there are objects below a path."""
        bucket, key = self._split(path)
        with self._answering(path):
            entries = self._entries(f"{key}/" if key else "", bucket, deep=True, limit=1)
            return any(isinstance(entry, StoredObject) for entry in entries)

    # Reading

    def read(self, path: str) -> bytes:
        """Read an object, consistently from one version."""
        with self._answering(path):
            return self._cat(self._name(path), **self._read_options)

    def _cat(self, name: str, **options: Any) -> bytes:
        return bytes(self.file_system.cat_file(name, **options))

    def read_into(self, out: IO[bytes], path: str, most_bytes: int = sys.maxsize) -> None:
        """Copy an object into a file, a large one in concurrent parts; failed parts are retried.

        Raises:
            OSError: with EFBIG when it has more than `most_bytes`.
            DataError: also when the object changes meanwhile.
        """
        before = self.head(path)
        if before.size > most_bytes:
            raise OSError(errno.EFBIG, f"expected at most {most_bytes:,} bytes, found {before.size:,}", path)
        starts = range(0, before.size, PART_BYTES)

        def fetch(start: int) -> None:
            end = min(start + PART_BYTES, before.size)
            with self._answering(path):
                data = self._cat(self._name(path), start=start, end=end)
            if len(data) != end - start:
                raise _changed(path)
            os.pwrite(out.fileno(), data, start)

        if len(starts) <= 1:
            data = self.read(path)
            if len(data) != before.size:
                raise _changed(path)
            out.write(data)
        else:
            _all_at_once(fetch, starts, PARTS_AT_ONCE)
            if self.head(path).version != before.version:
                raise _changed(path)
        out.seek(before.size)

    def open_regular(self, path: str, limit: int = sys.maxsize) -> IO[bytes]:
        """Open a copy of an object for reading; it may have any size."""
        copy = tempfile.TemporaryFile()  # noqa: SIM115
        self.read_into(copy, path)
        copy.seek(0)
        return copy

    # Writing

    def make_dirs(self, path: str) -> None:
        """Do nothing: a folder is only a prefix."""

    @contextlib.contextmanager
    def atomic_file(self, path: str) -> Iterator[IO[bytes]]:
        """Yield a temporary file, which is uploaded when the block succeeds."""
        with ScratchFolder() as scratch:
            local_path = os.path.join(scratch, "upload")
            with open(local_path, "wb") as file:
                yield file
            self.upload(local_path, path)

    def upload(self, local_path: str, path: str) -> None:
        """Upload a local file, a large one in parts."""
        with self._answering(path):
            self._upload(local_path, self._name(path))

    def _upload(self, local_path: str, name: str) -> None:
        self.file_system.put_file(local_path, name)

    def write_if(self, path: str, data: bytes, version: str = "") -> str | None:
        """Write an object if its version is unchanged; return the new one, or None.

        `data` must differ for every write. A `version` of "" requires that the object does not exist.
        """
        try:
            with self._answering(path):
                return self._write_if(*self._split(path), data, version)
        except (FileExistsError, FileNotFoundError):
            # Also after a successful write whose answer was lost, so that the client retried it.
            found = self.read_state(path)
            return found[0].version if found and found[1] == data else None

    def read_state(self, path: str) -> tuple[StoredObject, bytes] | None:
        """Return metadata and content of an object; None if missing.

        The content may be newer than the metadata. A write on the condition of the version is still safe: it
        fails if anything was written in between.
        """
        try:
            return self.head(path), self.read(path)
        except FileNotFoundError:
            return None

    def remove_tree(self, path: str) -> None:
        """Remove an object, or all objects below a folder; ignore a missing path.

        The top level is removed first, so that the rest never looks complete.
        """
        bucket = self._split(path)[0]
        for _, level in itertools.groupby(sorted(self.objects(path), key=_depth), key=_depth):
            with self._answering(path):
                self._remove(bucket, [entry.key for entry in level])

    def remove_leftovers(self, folder: str) -> None:
        """Remove the partial folders of writers that are not active any more: none is, under the lock."""
        for name in filter(PARTIAL.fullmatch, self._names(folder)):
            self.remove_tree(os.path.join(folder, name))

    def exclusive(self, path: str) -> contextlib.AbstractContextManager[Callable[[], None]]:
        """Hold an object as a lock; see `store_lock.lock`."""
        return store_lock.lock(self, path)

    def _remove(self, bucket: str, keys: Sequence[str]) -> None:
        def remove(key: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                self.file_system.rm_file(f"{bucket}/{key}")

        _all_at_once(remove, keys, _REQUESTS_AT_ONCE)

    def copy(self, source: str, destination: str) -> None:
        """Copy an object within the store."""
        with self._answering(destination):
            self._copy(self._name(source), self._name(destination))

    def _copy(self, source: str, destination: str) -> None:
        self.file_system.cp_file(source, destination)

    def rename(self, source: str, destination: str) -> None:
        """Copy an object or a folder's objects, then remove the source.

        The deepest objects are copied first, and removed last. So a manifest or saved_model.pb at the top
        implies that everything below it exists.
        """
        key, found = self.key_of(source), self.objects(source)
        if not found:
            raise missing(source)
        for entry in sorted(found, key=_depth, reverse=True):
            below = entry.key[len(key) :]
            self.copy(source.rstrip("/") + below, destination.rstrip("/") + below)
        self.remove_tree(source)

    @contextlib.contextmanager
    def atomic_dir(self, path: str) -> Iterator[str]:
        """Yield the path of a new folder, which replaces `path` when the block succeeds, object by object."""
        temporary = temporary_name(path)
        try:
            yield temporary
            self.remove_tree(path)
            self.rename(temporary, path)
        except BaseException:
            self.remove_tree(temporary)
            raise


def _changed(path: str) -> DataError:
    return DataError(
        "expected an object that does not change while it is read, found that it was changed; run again",
        where=path,
    )


def _depth(entry: StoredObject) -> int:
    return entry.key.count("/")


def _all_at_once(call: Any, arguments: Sequence[Any], workers: int) -> None:
    """Call a function for each argument, `workers` at a time; stop at an error."""
    if len(arguments) == 1:
        call(arguments[0])
        return
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(call, arguments))  # cancels the other calls at an error
