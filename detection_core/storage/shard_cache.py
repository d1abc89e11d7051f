"""Local copies of shards on stores that TensorFlow does not open: verified, and bounded in size.

The folder and its size are `DETFLOW_SHARD_CACHE` and `DETFLOW_SHARD_CACHE_GB`. A copy is named after its
content, so that a process finds the copies of its killed predecessor, and several processes may share the
folder. A copy that is removed while it is read stays readable to its reader.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import re
import stat
import tempfile
import uuid

import google_crc32c

from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.disk_cache import Cache, entry_key, gigabytes_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """A TFRecord file.

    Attributes:
        uri: where it is, local or on an object store.
        size: in bytes.
        crc32c: checksum of all its bytes, eight hexadecimal digits.
        examples: how many records it holds.
    """

    uri: str
    size: int
    crc32c: str
    examples: int


RecordFile = Shard | str
"""A TFRecord file: a shard that a manifest describes, or the path or URI of any other."""


def uri_of(file: RecordFile) -> str:
    """Return the path or URI of a file."""
    return file.uri if isinstance(file, Shard) else file


FOLDER, GIGABYTES = "DETFLOW_SHARD_CACHE", "DETFLOW_SHARD_CACHE_GB"
FETCHED_AHEAD = 4
"""How many shards a reader fetches at once."""

_logger = logging.getLogger(__name__)
# A copy is opened soon after it was fetched; it must not be removed before.
_NEVER_REMOVED = 4 * FETCHED_AHEAD


@dataclasses.dataclass(frozen=True)
class ShardCache(Cache):
    """A folder of copies.

    Attributes:
        private: whether the folder has to be of this user alone, as below a shared folder; one
            that the environment names is trusted as it is.
    """

    newest: int = _NEVER_REMOVED
    private: bool = False

    def fetch(self, shard: RecordFile) -> str:
        """Return the path of a local copy.

        Args:
            shard: what a manifest says of it, or the URI of one that no manifest lists.

        Raises:
            DataError: when the store does not answer, or the shard is gone or not what the manifest says.
        """
        key = _key(shard)
        if self.find(key):
            self._check_owner()
        else:
            self._download(shard, key)
            self.shrink()
        return self.path(key)

    def _check_owner(self) -> None:
        """Refuse a folder that other users can write to: copies are checked on download only.

        Raises:
            ConfigError: naming the folder.
        """
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
                    _check(shard, *_measure(copy))
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
    """Return the cache that the environment names.

    Raises:
        ConfigError: for a size that is no number.
    """
    default = os.path.join(tempfile.gettempdir(), f"detflow-shards-{os.getuid()}")
    folder, limit = os.environ.get(FOLDER) or default, gigabytes_of(GIGABYTES, "20")
    _logger.info("examples | copies of remote shards in %s, about %g GB at most", folder, limit)
    return ShardCache(folder, int(limit * 1e9), private=folder == default)


# tf.data passes on no more than the text of an error. The token in the text finds the error again.
_TOKEN = re.compile(r"\[shard failure ([0-9a-f]{32})\]")
_MOST_FAILURES = 100
_failures: dict[str, DataError] = {}


def fetch(shard: RecordFile) -> str:
    """Return the path of a local copy from the cache that the environment names; see `ShardCache.fetch`."""
    return shard_cache().fetch(shard)


def fetch_in_dataset(shard: RecordFile) -> str:
    """Return what `fetch` returns, for a function that tf.data calls.

    Raises:
        RuntimeError: in place of a DataError; `find_failure` returns it, given the text of tf.data's error.
    """
    try:
        return fetch(shard)
    except DataError as e:
        token = uuid.uuid4().hex
        _failures[token] = e
        while len(_failures) > _MOST_FAILURES:
            del _failures[next(iter(_failures))]
        raise RuntimeError(f"[shard failure {token}] {e}") from e


def find_failure(text: str) -> DataError | None:
    """Return the failure to fetch a shard that the text of a tf.data error names; None for another error."""
    tokens = _TOKEN.findall(text)
    return next((_failures[token] for token in tokens if token in _failures), None)


def _key(shard: RecordFile) -> str:
    """Return a key that changes with the content, ending as the shard's name does."""
    uri = uri_of(shard)
    known = map(str, dataclasses.astuple(shard)) if isinstance(shard, Shard) else [uri, *files.etags(uri)]
    return entry_key(*known) + (".tfrecord.gz" if uri.endswith((".gz", ".gzip")) else ".tfrecord")


def _check(shard: Shard, size: int, crc32c: str) -> None:
    if (size, crc32c) != (shard.size, shard.crc32c):
        raise DataError(
            f"expected {shard.size} bytes with the checksum {shard.crc32c}, found {size} with {crc32c}: the "
            "shard was changed or damaged; run ExampleGen again",
            where=shard.uri,
        )


def _measure(path: str) -> tuple[int, str]:
    """Return size and checksum of a local file."""
    size = checksum = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            checksum = google_crc32c.extend(checksum, piece)
            size += len(piece)
    return size, f"{checksum:08x}"
