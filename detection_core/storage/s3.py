"""S3 and compatible stores, with s3fs."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from detection_core.errors import ConfigError
from detection_core.redaction import find_header_fault
from detection_core.storage.object_store import PART_BYTES, PARTS_AT_ONCE, ObjectStore
from detection_core.storage.store_connection import Entry, StoredObject, missing, seconds_between, taken

_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_MISSING = ("404", "NoSuchKey", "NotFound")
_TAKEN = ("412", "PreconditionFailed", "ConditionalRequestConflict")
# Limits of S3 ("Multipart upload limits" and DeleteObjects, Amazon S3 User Guide).
_MOST_PARTS = 10_000
_REMOVED_AT_ONCE = 1000
_READ_ATTEMPTS = 3


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


class S3Store(ObjectStore):
    """Objects on S3. Credentials, region and endpoint are found like in AWS's tools."""

    schemes = ("s3",)
    extra = "s3"
    module = "s3fs"
    sign_in = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
    _read_options: ClassVar[dict[str, Any]] = {"max_concurrency": 1}

    def _settings(self) -> tuple[str, ...]:
        if "@" in _endpoint().partition("://")[2].partition("/")[0]:
            raise ConfigError(
                "expected an address without user and password; leave them out, and sign in with "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                where="AWS_ENDPOINT_URL",
            )
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            fault = find_header_fault(os.environ.get(name, ""), _PRINTABLE)
            if fault:
                raise ConfigError(f"{fault}; set the variable again", where=name)
        return _endpoint(), os.environ.get("AWS_ACCESS_KEY_ID", "")

    def _connect(self) -> Any:
        retries = {"max_attempts": 4, "mode": "standard"}
        file_system = self._import().S3FileSystem(
            config_kwargs={"retries": retries, "connect_timeout": 10, "read_timeout": 60},
            use_listings_cache=False,
            skip_instance_cache=True,
        )
        # botocore already retries requests. s3fs would retry its retries, which takes too long.
        file_system.retries = 1
        try:
            file_system.connect()
        except ValueError as e:
            raise ConfigError(f"expected a URL, found {_endpoint()!r}", where="AWS_ENDPOINT_URL") from e
        return file_system

    def _entries(self, prefix: str, bucket: str, *, deep: bool, limit: int = 0) -> Iterator[Entry]:
        request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
        request |= {} if deep else {"Delimiter": "/"}
        request |= {"MaxKeys": limit} if limit else {}
        while True:
            try:
                page = self.file_system.call_s3("list_objects_v2", **request)
            except FileNotFoundError as e:
                # Listing an empty bucket is no error, so the bucket does not exist.
                raise self._refused(
                    f"s3://{bucket}", f"the bucket does not exist ({e.__cause__ or e})"
                ) from e
            for entry in page.get("Contents", []):
                etag = entry["ETag"]
                yield StoredObject(key=entry["Key"], size=entry["Size"], etag=etag, version=etag)
            yield from (folder["Prefix"] for folder in page.get("CommonPrefixes", []))
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def _head(self, bucket: str, key: str) -> StoredObject:
        found = self.file_system.call_s3("head_object", Bucket=bucket, Key=key)
        date = found["ResponseMetadata"]["HTTPHeaders"].get("date")
        return StoredObject(
            key=key,
            size=int(found["ContentLength"]),
            etag=str(found["ETag"]),
            version=str(found["ETag"]),
            age=seconds_between(found["LastModified"], date),
        )

    def _write_if(self, bucket: str, key: str, data: bytes, version: str) -> str:
        condition = {"IfMatch": version} if version else {"IfNoneMatch": "*"}
        answer = self.file_system.call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)
        return str(answer["ETag"])

    def _cat(self, name: str, **options: Any) -> bytes:
        """Read an object; retry when the body breaks off, which botocore does not."""
        from aiohttp import ClientPayloadError
        from botocore.exceptions import IncompleteReadError, ResponseStreamingError

        broken_off = (ClientPayloadError, IncompleteReadError, ResponseStreamingError)
        for _ in range(_READ_ATTEMPTS - 1):
            with contextlib.suppress(*broken_off):
                return super()._cat(name, **options)
        return super()._cat(name, **options)

    def _upload(self, local_path: str, name: str) -> None:
        part = max(PART_BYTES, -(-os.path.getsize(local_path) // _MOST_PARTS))
        self.file_system.put_file(local_path, name, chunksize=part, max_concurrency=PARTS_AT_ONCE)

    def _remove(self, bucket: str, keys: Sequence[str]) -> None:
        if len(keys) == 1:
            self.file_system.call_s3("delete_object", Bucket=bucket, Key=keys[0])
            return
        for start in range(0, len(keys), _REMOVED_AT_ONCE):
            named = [{"Key": key} for key in keys[start : start + _REMOVED_AT_ONCE]]
            answer = self.file_system.call_s3(
                "delete_objects", Bucket=bucket, Delete={"Objects": named, "Quiet": True}
            )
            for fault in answer.get("Errors", []):
                path = f"s3://{bucket}/{fault.get('Key', '')}"
                raise self._refused(path, f"{fault.get('Code')} ({fault.get('Message')})")

    def _translate(self, error: Exception, path: str) -> Exception | None:
        from aiohttp import ClientError as BrokenOff
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
        from fsspec.exceptions import FSTimeoutError

        # s3fs turns the store's answer into an OSError and keeps the original as its cause.
        answered = error.__cause__ if isinstance(error, OSError) else error
        if isinstance(answered, ClientError):
            code, message = (answered.response["Error"].get(name, "") for name in ("Code", "Message"))
            if code in _MISSING:
                return missing(path)
            return taken(path) if code in _TAKEN else self._refused(path, f"{code} ({message})")
        if isinstance(error, FileNotFoundError):
            return missing(path)
        if isinstance(error, BotoCoreError | HTTPClientError | BrokenOff | FSTimeoutError | TimeoutError):
            return self._unanswered(path, error, _endpoint() or "AWS", "AWS_ENDPOINT_URL")
        return None
