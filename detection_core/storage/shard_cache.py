"""Local copies of shards on stores that TensorFlow does not open: verified, and bounded in size.

The folder and its size are `DETFLOW_SHARD_CACHE` and `DETFLOW_SHARD_CACHE_GB`. A copy is named after its
content, so that a process finds the copies of its killed predecessor, and several processes may share the
folder. A copy that is removed while it is read stays readable to its reader.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import logging
import os
import re
import stat
import tempfile
import time
import uuid

import google_crc32c

from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.record_files import RecordFile, Shard, uri_of

FOLDER, GIGABYTES = "DETFLOW_SHARD_CACHE", "DETFLOW_SHARD_CACHE_GB"
FETCHED_AHEAD = 4
"""How many shards a reader fetches at once."""

_logger = logging.getLogger(__name__)
# A copy is opened soon after it was fetched; it must not be removed before.
_NEVER_REMOVED = 4 * FETCHED_AHEAD
_LEFTOVER_SECONDS = 3600


@dataclasses.dataclass(frozen=True)
class ShardCache:
    """A folder of copies.

    Attributes:
        folder: where they are.
        limit: bytes above which the oldest ones are removed; the newest few stay whatever their size.
        private: whether the folder has to be of this user alone, as below a shared folder; one
            that the environment names is trusted as it is.
    """

    folder: str
    limit: int
    private: bool = False

    def fetch(self, shard: RecordFile) -> str:
        """Return the path of a local copy.

        Args:
            shard: what a manifest says of it, or the URI of one that no manifest lists.

        Raises:
            DataError: when the store does not answer, or the shard is gone or not what the manifest says.
        """
        copy = os.path.join(self.folder, _name(shard))
        try:
            os.utime(copy)
            self._check_owner()
        except FileNotFoundError:
            self._download(shard, copy)
            self._shrink()
        return copy

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

    def _download(self, shard: RecordFile, copy: str) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self._check_owner()
        uri, partial = uri_of(shard), f"{copy}.{uuid.uuid4().hex[:8]}.partial"
        try:
            files.download(uri, partial)
            if isinstance(shard, Shard):
                _check(shard, *_measure(partial))
            os.replace(partial, copy)
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
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(partial)

    def _shrink(self) -> None:
        """Remove the copies that were asked for longest ago, and what killed processes left."""
        copies, now = [], time.time()
        for entry in os.scandir(self.folder):
            with contextlib.suppress(FileNotFoundError):
                state = entry.stat()
                if not entry.name.endswith(".partial"):
                    copies.append((state.st_mtime, state.st_size, entry.path))
                elif now - state.st_mtime > _LEFTOVER_SECONDS:
                    os.remove(entry.path)
        copies.sort(reverse=True)
        total = 0
        for number, (_, size, path) in enumerate(copies):
            total += size
            if total > self.limit and number >= _NEVER_REMOVED:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)


def gigabytes_of(variable: str, default: str) -> float:
    """Return the gigabytes that a variable of the environment says.

    Raises:
        ConfigError: for what is no number.
    """
    text = os.environ.get(variable) or default
    try:
        return float(text)
    except ValueError as e:
        raise ConfigError(f"expected a number of gigabytes, found {text!r}", where=variable) from e


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


def _name(shard: RecordFile) -> str:
    """Return a name that changes with the content, ending as the shard's does."""
    uri = uri_of(shard)
    if isinstance(shard, Shard):
        known = "\0".join(map(str, dataclasses.astuple(shard)))
    else:
        known = "\0".join([uri, *files.etags(uri)])
    suffix = ".tfrecord.gz" if uri.endswith((".gz", ".gzip")) else ".tfrecord"
    return hashlib.sha256(known.encode()).hexdigest()[:32] + suffix


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
