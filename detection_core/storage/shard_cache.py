"""Local copies of shards on stores that TensorFlow cannot open: verified, and limited in size.

`DETFLOW_SHARD_CACHE` and `DETFLOW_SHARD_CACHE_GB` set the folder and its size. A copy is named after its
content. So a process finds copies of a killed predecessor, and processes may share the folder. A copy that is
removed while open stays readable.
"""

import collections
import dataclasses
import functools
import logging
import os
import stat
import tempfile

import google_crc32c

from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.disk_cache import Cache, entry_key


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """A TFRecord file.

    Attributes:
        uri: path or URI.
        size: in bytes.
        crc32c: checksum of all its bytes, eight hexadecimal digits.
        examples: number of records.
    """

    uri: str
    size: int
    crc32c: str
    examples: int


RecordFile = Shard | str
"""A TFRecord file: a shard from a manifest, or a path or URI."""


def uri_of(file: RecordFile) -> str:
    """Return the path or URI of a file."""
    return file.uri if isinstance(file, Shard) else file


FOLDER, GIGABYTES = "DETFLOW_SHARD_CACHE", "DETFLOW_SHARD_CACHE_GB"
FETCHED_AHEAD = 4
"""Number of shards that a reader fetches concurrently."""

_logger = logging.getLogger(__name__)
# A copy is opened soon after it is fetched and must not be removed before.
_NEVER_REMOVED = 4 * FETCHED_AHEAD


@dataclasses.dataclass(frozen=True)
class ShardCache(Cache):
    """A cache of shards.

    Attributes:
        private: whether only this user may write to the folder, as below a shared folder. A folder set by the
            environment is trusted.
    """

    newest: int = _NEVER_REMOVED
    private: bool = False

    def fetch(self, shard: RecordFile) -> str:
        """Return the path of a local copy, downloaded if missing.

        Raises:
            DataError: when the store does not answer, or the shard is missing or differs from the manifest.
        """
        key = _key(shard)
        if self.find(key):
            self._check_owner()
        else:
            self._download(shard, key)
            self.shrink()
        return self.path(key)

    def _check_owner(self) -> None:
        """Refuse a folder that others can write to, because copies are verified only on download."""
        if not self.private:
            return
        state = os.lstat(self.folder)
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o022:
            raise ConfigError(
                "expected a private folder for copies of shards, found one that another user made or"
                f" may write to; remove it, or set {FOLDER} to a folder that you trust",
                where=self.folder,
            )

    def _download(self, shard: RecordFile, key: str) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self._check_owner()
        uri = uri_of(shard)
        try:
            with self.add(key) as copy:
                files.download(uri, copy)
                if isinstance(shard, Shard):
                    _check(shard, copy)
        except FileNotFoundError as e:
            raise DataError(
                "expected a shard of the examples, found none; run ExampleGen again, or restore the object",
                where=uri,
            ) from e
        except OSError as e:
            raise DataError(
                f"expected room for a copy of {uri}, found {e.strerror}; free some, set {FOLDER} to a "
                f"larger disk or {GIGABYTES} to less",
                where=self.folder,
            ) from e


@functools.cache
def shard_cache() -> ShardCache:
    """Return the cache that the environment variables configure; ConfigError when the size is no number."""
    default = os.path.join(tempfile.gettempdir(), f"detflow-shards-{os.getuid()}")
    folder, size = os.environ.get(FOLDER) or default, os.environ.get(GIGABYTES) or "20"
    try:
        limit = float(size)
    except ValueError as e:
        raise ConfigError(f"expected a number of gigabytes, found {size!r}", where=GIGABYTES) from e
    _logger.info("examples | copies of remote shards in %s, about %g GB at most", folder, limit)
    return ShardCache(folder, int(limit * 1e9), private=folder == default)


# tf.data keeps only the text of an error, which contains that of the original one.
_failures: collections.deque[DataError] = collections.deque(maxlen=100)


def fetch_in_dataset(shard: RecordFile) -> str:
    """Fetch a shard, inside a function that tf.data calls.

    Raises:
        RuntimeError: in place of a DataError; `find_failure` finds that one by the text of tf.data's error.
    """
    try:
        return shard_cache().fetch(shard)
    except DataError as e:
        _failures.append(e)
        raise RuntimeError(str(e)) from e


def find_failure(text: str) -> DataError | None:
    """Return the fetch error behind the text of a tf.data error; None for other errors."""
    return next((failure for failure in list(_failures) if str(failure) in text), None)


def _key(shard: RecordFile) -> str:
    """Return a key that depends on the content and ends like the shard's name."""
    uri = uri_of(shard)
    known = map(str, dataclasses.astuple(shard)) if isinstance(shard, Shard) else [uri, *files.states(uri)]
    return entry_key(*known) + (".tfrecord.gz" if uri.endswith((".gz", ".gzip")) else ".tfrecord")


def _check(shard: Shard, path: str) -> None:
    size = checksum = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            checksum = google_crc32c.extend(checksum, piece)
            size += len(piece)
    if (size, f"{checksum:08x}") != (shard.size, shard.crc32c):
        raise DataError(
            f"expected {shard.size} bytes with the checksum {shard.crc32c}, found {size} with"
            f" {checksum:08x}: the shard was changed or damaged; run ExampleGen again",
            where=shard.uri,
        )
