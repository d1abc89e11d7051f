"""Files on S3 and on stores that speak its protocol, under the names that tf.io.gfile has for its own.

TensorFlow opens no `s3://` path. Credentials, region and endpoint are taken as every AWS tool takes them:
`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`. An object is written whole or
not at all; a folder is only the beginning of its objects' names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fnmatch
import functools
import io
import itertools
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import IO, Any

from detection_core.errors import ConfigError, DataError
from detection_core.redaction import find_header_fault

SCHEME = "s3://"

_logger = logging.getLogger(__name__)
_IN_MEMORY_BYTES = 64 << 20
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_WILD = re.compile(r"[*?\[]")
_MISSING = ("404", "NoSuchKey", "NotFound")
_TAKEN = ("412", "PreconditionFailed", "ConditionalRequestConflict")


def is_s3(path: str) -> bool:
    """Tell whether a path names an object, or a folder of objects, of such a store."""
    return path.startswith(SCHEME)


def _client() -> Any:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if "@" in endpoint.partition("://")[2].partition("/")[0]:
        raise ConfigError(
            "expected an address without user and password; leave them out, and sign in with "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            where="AWS_ENDPOINT_URL",
        )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        fault = find_header_fault(os.environ.get(name, ""), _PRINTABLE)
        if fault:
            raise ConfigError(f"{fault}; set the variable again", where=name)
    return _client_of(endpoint, os.environ.get("AWS_ACCESS_KEY_ID", ""))


@functools.lru_cache(maxsize=4)
def _client_of(endpoint: str, key_id: str) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as e:
        raise ConfigError(
            "expected boto3 for s3:// paths, found none; install it with `pip install 'detflow[s3]'`"
        ) from e
    retries = {"max_attempts": 4, "mode": "standard"}
    try:
        return boto3.client("s3", config=Config(retries=retries, connect_timeout=10, read_timeout=60))
    except ValueError as e:
        raise ConfigError(f"expected a URL, found {endpoint!r}", where="AWS_ENDPOINT_URL") from e


@contextlib.contextmanager
def _answering(path: str) -> Iterator[None]:
    """Turn the client's errors into ours.

    Raises:
        FileNotFoundError: for an object that is not there.
        FileExistsError: for one that should not have been.
        DataError: for a store that cannot be reached or refuses.
    """
    _client()  # says so where boto3 is missing
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    try:
        yield
    except ClientError as e:
        code, message = e.response["Error"].get("Code", ""), e.response["Error"].get("Message", "")
        if code in _MISSING:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from e
        if code in _TAKEN:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from e
        raise DataError(
            f"expected access to the object store, found {code} ({message}); check the bucket's name, the "
            "credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) and their rights",
            where=path,
        ) from e
    except (BotoCoreError, Boto3Error, HTTPClientError) as e:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "AWS"
        raise DataError(
            f"expected an answer from the object store ({endpoint}), found none: {e}; check "
            "AWS_ENDPOINT_URL, the network and the credentials, then run again: what is finished is kept",
            where=path,
        ) from e


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = path.removeprefix(SCHEME).partition("/")
    return bucket, key.rstrip("/")


def _place(path: str) -> dict[str, str]:
    bucket, key = _split(path)
    return {"Bucket": bucket, "Key": key}


def _below(path: str, **options: Any) -> Iterator[dict[str, Any]]:
    """Yield the pages of the listing of what begins with `path/`."""
    bucket, key = _split(path)
    yield from (
        _client()
        .get_paginator("list_objects_v2")
        .paginate(Bucket=bucket, Prefix=f"{key}/" if key else "", **options)
    )


def key_of(path: str) -> str:
    """Return the key that a path stands for, without the bucket."""
    return _split(path)[1]


def objects(path: str) -> list[dict[str, Any]]:
    """Return Key, Size, ETag and LastModified of a path's own object, or of all below it, sorted by Key."""
    with _answering(path):
        found = [entry for page in _below(path) for entry in page.get("Contents", [])]
        if not found and _split(path)[1]:
            with contextlib.suppress(FileNotFoundError), _answering(path):
                head = _client().head_object(**_place(path))
                own = {"Key": _split(path)[1], "Size": head["ContentLength"], "ETag": head["ETag"]}
                found = [{**own, "LastModified": head["LastModified"]}]
    return sorted((e for e in found if not e["Key"].endswith("/")), key=lambda e: e["Key"])


def content_state(path: str) -> str:
    """Return size and ETag of an object, which change when its content does.

    Raises:
        FileNotFoundError: when there is no such object.
        DataError: when the store does not answer.
    """
    with _answering(path):
        head = _client().head_object(**_place(path))
    return f"{head['ContentLength']} {head['ETag']}"


class _Upload(tempfile.SpooledTemporaryFile):
    """What is written to it becomes an object when it is closed, and nothing when its block fails."""

    def __init__(self, path: str) -> None:
        super().__init__(max_size=_IN_MEMORY_BYTES)
        self._path: str | None = path

    def close(self) -> None:
        path, self._path = self._path, None
        if path is not None:
            self.seek(0)
            with _answering(path):
                _client().upload_fileobj(self, **_place(path))
        super().close()

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            self._path = None
        self.close()

    def __del__(self) -> None:
        # Left open: whoever wrote did not come to the end.
        self._path = None
        super().__del__()


def GFile(path: str, mode: str = "r") -> IO[Any]:
    """Open an object for reading or writing.

    Raises:
        FileNotFoundError: when there is none to read.
        DataError: when the store does not answer.
        ValueError: for a mode other than reading or writing; an object cannot be changed.
    """
    if mode in ("w", "wb"):
        raw: Any = _Upload(path)
    elif mode in ("r", "rb"):
        raw = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        with _answering(path):
            body = _client().get_object(**_place(path))["Body"]
            shutil.copyfileobj(body, raw, 1 << 20)
        raw.seek(0)
    else:
        raise ValueError(f"{path}: an object is read or written, not opened with mode {mode!r}")
    return raw if "b" in mode else _Text(raw)


class _Text(io.TextIOWrapper):
    def __init__(self, raw: Any) -> None:
        super().__init__(raw, encoding="utf-8")
        self._raw = raw

    def __exit__(self, *error: Any) -> None:
        self.flush()
        self._raw.__exit__(*error)


def download(path: str, local_path: str) -> None:
    """Copy an object to a local file, a large one in parts at once; parts that fail are tried again.

    Raises:
        FileNotFoundError: when there is no such object.
        DataError: when the store does not answer.
    """
    with open(local_path, "wb") as out, _answering(path):
        _client().download_fileobj(**_place(path), Fileobj=out)


def exists(path: str) -> bool:
    """Tell whether there is such an object, or objects below such a folder."""
    try:
        if _split(path)[1]:
            with _answering(path):
                _client().head_object(**_place(path))
            return True
    except FileNotFoundError:
        pass
    return isdir(path)


def isdir(path: str) -> bool:
    """Tell whether there are objects below such a folder."""
    with _answering(path):
        page = next(iter(_below(path, PaginationConfig={"MaxItems": 1})))
    return bool(page.get("Contents"))


def listdir(path: str) -> list[str]:
    """Return the names in a folder.

    Raises:
        FileNotFoundError: when there is nothing below it.
    """
    names: list[str] = []
    skip = len(_split(path)[1]) + 1 if _split(path)[1] else 0
    with _answering(path):
        for page in _below(path, Delimiter="/"):
            names += [entry["Key"][skip:] for entry in page.get("Contents", [])]
            names += [entry["Prefix"][skip:].rstrip("/") for entry in page.get("CommonPrefixes", [])]
    if not names:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return [name for name in names if name]


def glob(pattern: str) -> list[str]:
    """Return the objects and folders that match a pattern, part by part as in a file system.

    Only folders on the way are listed, not what lies beside and below them.
    """
    bucket, key = _split(pattern)
    found, part = [f"{SCHEME}{bucket}"], ""
    for part in key.split("/"):
        if _WILD.search(part):
            pairs = ((path, name) for path in found for name in _names(path))
            found = [f"{path}/{name}" for path, name in pairs if fnmatch.fnmatchcase(name, part)]
        else:
            found = [f"{path}/{part}" for path in found]
    return sorted(found if _WILD.search(part) else filter(exists, found))


def _names(path: str) -> list[str]:
    try:
        return listdir(path)
    except FileNotFoundError:
        return []


def makedirs(path: str) -> None:
    """Do nothing: a folder is there as soon as something is in it."""


def remove(path: str) -> None:
    """Remove an object; one that is missing is no error."""
    with _answering(path):
        _client().delete_object(**_place(path))


def rmtree(path: str) -> None:
    """Remove all objects below a folder, those at its top first: what is left is not taken for a whole."""
    for _, level in itertools.groupby(sorted(objects(path), key=_depth), key=_depth):
        keys = [{"Key": entry["Key"]} for entry in level]
        for start in range(0, len(keys), 1000):
            with _answering(path):
                _client().delete_objects(
                    Bucket=_split(path)[0], Delete={"Objects": keys[start : start + 1000], "Quiet": True}
                )


def _depth(entry: dict[str, Any]) -> int:
    return int(entry["Key"].count("/"))


def rename(source: str, destination: str, overwrite: bool = False) -> None:
    """Copy an object or a folder's objects, then remove the source.

    What lies deepest is copied first and what lies at the top last, so that a manifest at the top, or a
    SavedModel's saved_model.pb, tells that everything below it is there. Removing goes the other way.

    Raises:
        FileNotFoundError: when there is no source.
    """
    del overwrite  # a store knows nothing else
    bucket, key = _split(source)
    found = objects(source)
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
    target_bucket, target = _split(destination)
    with _answering(destination):
        for entry in sorted(found, key=_depth, reverse=True):
            _client().copy(
                {"Bucket": bucket, "Key": entry["Key"]}, target_bucket, target + entry["Key"][len(key) :]
            )
    if found[0]["Key"] == key:
        remove(source)
    else:
        rmtree(source)


def create(path: str, data: bytes) -> bool:
    """Write an object only where there is none; tell whether it was written."""
    return write_if(path, data, IfNoneMatch="*") is not None


def write_if(path: str, data: bytes, **condition: str) -> str | None:
    """Write an object if a condition holds when the store writes it.

    Args:
        path: of the object.
        data: its content, which nobody writes twice.
        condition: `IfMatch` with an ETag, or `IfNoneMatch` with "*".

    Returns:
        The ETag of what was written; None where the condition did not hold.
    """
    try:
        with _answering(path):
            return str(_client().put_object(**_place(path), Body=data, **condition)["ETag"])
    except (FileExistsError, FileNotFoundError):
        # Also where an attempt went well, its answer was lost and the client tried again.
        found = read_state(path)
        return found.etag if found and found.content == data else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """An object at a moment.

    Attributes:
        content: its bytes.
        etag: changes with every write of other bytes.
        age: seconds since it was written, by the store's own clock.
    """

    content: bytes
    etag: str
    age: float


def read_state(path: str) -> State | None:
    """Return an object's content, ETag and age; None where there is none."""
    try:
        with _answering(path):
            found = _client().get_object(**_place(path))
            content = found["Body"].read()
    except FileNotFoundError:
        return None
    date = found["ResponseMetadata"]["HTTPHeaders"].get("date")
    now = parsedate_to_datetime(date).timestamp() if date else time.time()
    age = float(now - found["LastModified"].timestamp())
    return State(content=content, etag=str(found["ETag"]), age=age)
