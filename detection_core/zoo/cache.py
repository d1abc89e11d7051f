"""Cache of fetched weights, shared by all runs: `detflow` in the user's cache folder.

The publishers give no checksums. Therefore the size and SHA-256 of each file are recorded in `FILE.json`
beside it at first, and compared later. `digests` keeps the checksums of unchanged files, so that each run
need not read them again. Only regular files are read: others could block, never end or lead elsewhere.
"""

import contextlib
import dataclasses
import datetime
import errno
import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.artifacts.json_values import decode, encode
from detection_core.bounded.limits import parse_json_text
from detection_core.errors import ModelError, StorageError
from detection_core.redaction import clean
from detection_core.storage import files
from detection_core.storage.disk_cache import Cache, entry_key
from detection_core.zoo.archive import CHECKPOINT, unpack_detector
from detection_core.zoo.download import Unreachable, download
from detection_core.zoo.networks import PublishedModel

_logger = logging.getLogger(__name__)

CACHE_VARIABLE, MIRROR_VARIABLE = "DETFLOW_CACHE", "DETFLOW_WEIGHTS_MIRROR"
_RECORD_FORMAT = 1
_ZOO, _UNPACKED = "zoo", "unpacked.json"
_DIGESTS, _KEPT_DIGESTS = "digests", 2_000
# Two writes within one tick of a file system's clock leave the same times.
_SETTLED_NS = 2_000_000_000
_NOTE_BYTES = 1 << 20
# The largest published backbone weights have 260 MB.
_MOST_BYTES = 512 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """A published file.

    Attributes:
        address: its URL, which ends with the file's name.
        folder: of the cache that it goes to.
        digest: the publisher's checksum, as `md5:...` or `sha256:...`; "" without one.
        most_bytes: maximum size; a larger file is not the published one.
    """

    address: str
    folder: str
    digest: str = ""
    most_bytes: int = _MOST_BYTES

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return self.address.rpartition("/")[2]

    @property
    def path(self) -> str:
        """Return the file's path in the cache, whether or not it exists."""
        return os.path.join(cache_folder(), self.folder, self.name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FetchedModel:
    """A detector of the zoo on this machine: `folder` has `checkpoint/` and `pipeline.config`."""

    model: PublishedModel

    @property
    def folder(self) -> str:
        """Return the path of its folder, whether or not it exists."""
        return os.path.join(cache_folder(), _ZOO, self.model.name)

    @property
    def checkpoint(self) -> str:
        """Return the prefix of the checkpoint's files."""
        return os.path.join(self.folder, CHECKPOINT, self.model.checkpoint)

    @property
    def config(self) -> str:
        """Return the path of its pipeline.config, which older archives lack."""
        return os.path.join(self.folder, PIPELINE_CONFIG)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Content:
    size: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.size:,} bytes with SHA-256 {self.sha256}"


def cache_folder() -> str:
    """Return the folder of all fetched files: DETFLOW_CACHE, or `detflow` in the user's cache."""
    given = os.environ.get(CACHE_VARIABLE)
    base = given or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "detflow"
    )
    return os.path.abspath(base)


def published_archive(model: PublishedModel) -> PublishedFile:
    """Return the published archive of a detector."""
    return PublishedFile(address=model.address, folder=_ZOO, most_bytes=model.most_bytes)


def fetch_model(model: PublishedModel, *, mirror: str = "") -> FetchedModel:
    """Return a detector of the zoo; fetch and unpack it if it is not cached.

    See `fetch_file` for `mirror`.

    Raises:
        ModelError: when it cannot be fetched, has changed, or is not an archive of the zoo.
        StorageError: when the cache cannot be written.
    """
    found = FetchedModel(model=model)
    if not _is_whole(found.folder):
        with _writing(published_archive(model).path):
            if not _is_whole(found.folder):
                _unpack(model, found.folder, mirror)
    return found


def _unpack(model: PublishedModel, folder: str, mirror: str) -> None:
    """Fill a detector's folder; record an archive only after it was unpacked successfully."""
    archive = published_archive(model)
    fetched = _obtain(archive, mirror)
    if os.path.islink(folder):
        files.remove_tree(folder)  # Its target is not part of the cache.
    try:
        with files.atomic_dir(folder) as temporary:
            unpack_detector(archive.path, temporary, top=model.folder, checkpoint=model.checkpoint)
            contents = {path: _content(os.path.join(temporary, path)) for path in sizes(temporary)}
            _write_json(os.path.join(temporary, _UNPACKED), contents)
            # Before the folder appears: a folder that is used without its archive must be on record.
            _remember(archive)
    except ModelError:
        if fetched and _record(archive) is None:
            files.remove_tree(archive.path)
        raise


def find_model_files(model: PublishedModel) -> FetchedModel | None:
    """Return a detector of the zoo if it is cached and complete; else None."""
    found = FetchedModel(model=model)
    return found if _is_whole(found.folder) else None


def has_model(model: PublishedModel) -> bool:
    """Tell whether a detector of the zoo was unpacked on this machine, without checking its files."""
    return os.path.exists(os.path.join(FetchedModel(model=model).folder, _UNPACKED))


def fetch_file(file: PublishedFile, *, mirror: str = "") -> str:
    """Return the cached path of a published file; fetch it if it is missing.

    A file that a user puts there counts as fetched.

    Args:
        file: the published file.
        mirror: URL, folder or object store folder with a copy under the same name. "":
            DETFLOW_WEIGHTS_MIRROR, or the publisher if it is unset.

    Raises:
        ModelError: when it cannot be fetched, or has changed.
        StorageError: when the cache cannot be written.
    """
    if is_file(file.path) and _record(file) is not None:
        _compare(file, file.path)
        return file.path
    with _writing(file.path):
        _obtain(file, mirror)
        _remember(file)
    return file.path


def _obtain(file: PublishedFile, mirror: str) -> bool:
    """Ensure that a file is cached and unchanged; return whether it was fetched now."""
    if is_file(file.path):
        _compare(file, file.path)
        return False
    _fetch(file, mirror or os.environ.get(MIRROR_VARIABLE, ""))
    return True


def _fetch(file: PublishedFile, mirror: str) -> None:
    """Download to a temporary name, compare, and rename."""
    source = _source(file, mirror)
    fetched = f"{file.path}.fetched"
    files.remove_tree(fetched)
    try:
        if source.startswith(("http://", "https://")):
            _logger.info("fetching %s", clean(source))
            download(source, fetched, most_bytes=file.most_bytes)
        else:
            files.download(source, fetched, most_bytes=file.most_bytes)
    except Unreachable as error:
        raise _not_to_be_had(file, source, error.message) from error
    except OSError as error:
        if error.errno not in (*files.IRREGULAR, errno.ENOENT, errno.ENOTDIR):
            raise
        raise _not_to_be_had(file, source, error.strerror or str(error)) from error
    try:
        _compare(file, fetched)
    except ModelError:
        files.remove_tree(fetched)
        raise
    files.rename(fetched, file.path)


def _source(file: PublishedFile, mirror: str) -> str:
    """Return the URL to fetch from; the file's name goes before a mirror URL's signed query."""
    if not mirror:
        return file.address
    folder, mark, query = mirror.partition("?") if "://" in mirror else (mirror, "", "")
    return f"{folder.rstrip('/')}/{file.name}{mark}{query}"


def _not_to_be_had(file: PublishedFile, source: str, reason: str) -> ModelError:
    published = "" if source == file.address else f", published at {file.address},"
    return ModelError(
        f"expected to fetch it, found: {reason}. Without a network put {file.name}{published} into"
        f" {os.path.dirname(file.path)}, or name a mirror that has it, by the setting train.weights_mirror or"
        f" {MIRROR_VARIABLE}: an address, a folder or a bucket; {CACHE_VARIABLE} names another folder",
        where=source,
    )


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    """Lock a path, so that one process at a time writes to it; others wait."""
    folder, name = os.path.split(path)
    try:
        with Cache(folder).exclusive(name):
            yield
    except PermissionError as error:
        raise StorageError(
            f"expected a cache that can be written, found: {error.strerror}; name another folder by"
            f" {CACHE_VARIABLE}",
            where=folder,
        ) from error


def _compare(file: PublishedFile, path: str) -> None:
    """Refuse a file that differs from its record or checksum; `path` is its current location."""
    size = os.path.getsize(path)
    if size > file.most_bytes:  # Reading it could take hours.
        raise ModelError(
            f"expected at most {file.most_bytes:,} bytes, found {size:,}; remove it to fetch it again",
            where=path,
        )
    kind, _, published = file.digest.partition(":")
    if published and file_digest(path, kind) != published:
        raise ModelError(
            f"expected a file with {kind.upper()} {published}, as it is published, found"
            f" {file_digest(path, kind)}; remove it to fetch it again",
            where=path if path == file.path else file.name,
        )
    record, found = _record(file), _content(path)
    if record in (None, found):
        return
    if path == file.path:
        cause = "somebody changed it; remove it to fetch it again"
    else:
        cause = "it was published again, or changed on the way; if you trust it, remove the record"
    raise ModelError(
        f"expected {record}, as {file.path}.json recorded it when it was first there, found {found}: {cause}",
        where=file.path if path == file.path else file.name,
    )


def _remember(file: PublishedFile) -> None:
    """Record a file's size and checksum, if there is no record yet."""
    if _record(file) is None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        known = {"format": _RECORD_FORMAT, "address": file.address, "recorded_at": now}
        _write_json(f"{file.path}.json", known | encode(_content(file.path)))


def _record(file: PublishedFile) -> _Content | None:
    path = f"{file.path}.json"
    if not is_file(path):
        return None
    try:
        return decode(_Content, _read_json(path))
    except (OSError, ValueError) as error:
        raise ModelError(
            "expected the record of a fetched file, found something else; remove it if you trust the file",
            where=path,
        ) from error


def _content(path: str) -> _Content:
    return _Content(size=os.path.getsize(path), sha256=file_digest(path))


def content_state(path: str) -> str:
    """Return the same as `files.content_state`, without reading unchanged cached files again."""
    if os.path.abspath(path).startswith(f"{cache_folder()}/") and os.path.isfile(path):
        return file_digest(path)
    return files.content_state(path)


def _is_whole(folder: str) -> bool:
    """Tell whether a folder holds exactly the unpacked bytes."""
    note = os.path.join(folder, _UNPACKED)
    try:
        expected: Mapping[str, _Content] = decode(Mapping[str, _Content], _read_json(note))
    except (OSError, ValueError):
        return False
    found = sizes(folder)
    del found[_UNPACKED]
    # Read only files of the right size, because the folder may contain anything.
    if (
        not os.path.islink(folder)
        and found == {path: content.size for path, content in expected.items()}
        and all(_content(os.path.join(folder, path)) == content for path, content in expected.items())
    ):
        return True
    _logger.warning("%s: changed since it was unpacked; it is unpacked again", folder)
    return False


def _read_json(path: str) -> Any:
    return parse_json_text(files.read_regular(path, _NOTE_BYTES).decode())


def _write_json(path: str, value: Any) -> None:
    files.write_text(path, json.dumps(encode(value), indent=1) + "\n")


def is_file(path: str) -> bool:
    """Tell whether there is a file in the cache; ModelError for a path that is not a regular file."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISREG(mode):
        return True
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe"}
    raise ModelError(
        f"expected a file in the cache, found {kinds.get(stat.S_IFMT(mode), 'a device or a socket')}; remove"
        " it, or put the file itself there",
        where=path,
    )


def sizes(folder: str) -> dict[str, int]:
    """Return path and bytes of all entries below a folder; -1 for entries that are not regular files."""
    found = {}
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for path in (os.path.join(parent, name) for name in (*names, *links)):
            state = os.lstat(path)
            found[os.path.relpath(path, folder)] = state.st_size if stat.S_ISREG(state.st_mode) else -1
    return found


def file_digest(path: str, kind: str = "sha256") -> str:
    """Return the hexadecimal checksum of a file in the cache, from `digests` if it is known.

    A known checksum is used only if the file's size, times, device and inode are unchanged. These include the
    change time (ctime), which moves with the content and which no program can set back. The cache may be
    read-only. `kind` is the algorithm, as `hashlib` names it.
    """
    root, state = cache_folder(), _state(path)
    cache = Cache(os.path.join(root, _DIGESTS), 0, _KEPT_DIGESTS)
    key = entry_key(os.path.relpath(path, root), kind, *map(str, state))
    known = cache.read_json(key)
    if isinstance(known, str):
        return known
    with open(path, "rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    if _state(path) == state and time.time_ns() - max(state[1:3]) > _SETTLED_NS:
        cache.write_json(key, found)
    return found


def _state(path: str) -> list[int]:
    state = os.stat(path)
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev]
