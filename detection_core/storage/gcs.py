"""Google Cloud Storage, with gcsfs."""

import datetime
import json
import logging
import os
import uuid
from collections.abc import Iterator
from typing import Any

from detection_core.storage.object_store import ObjectStore
from detection_core.storage.store_connection import Entry, StoredObject, missing, seconds_between, taken

_EMULATOR = "STORAGE_EMULATOR_HOST"
_CHUNK_BYTES = 32 << 20
_FIELDS = "nextPageToken,prefixes,items(name,size,md5Hash,crc32c,generation)"


class GcsStore(ObjectStore):
    """Objects on Google Cloud Storage. Credentials are found like in Google's libraries.

    Requests use the JSON API: cloud.google.com/storage/docs/json_api/v1/objects.
    """

    schemes = ("gs", "gcs")
    extra = "gcs"
    module = "gcsfs"
    sign_in = (
        "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login` or the machine's account"
    )

    @property
    def opened_by_tensorflow(self) -> bool:
        """Whether TensorFlow opens gs:// paths; its file system does not support emulators."""
        return not os.environ.get(_EMULATOR)

    def _settings(self) -> tuple[str, ...]:
        names = (_EMULATOR, "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT")
        return tuple(os.environ.get(name, "") for name in names)

    def _connect(self) -> Any:
        # Otherwise gcsfs asks a second service for each bucket's type, over gRPC, for up to a minute.
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        core = self._import("gcsfs.core")
        # gcsfs also logs the errors that it raises, with a traceback.
        logging.getLogger("gcsfs").setLevel(logging.CRITICAL)
        from aiohttp import ClientTimeout

        return core.GCSFileSystem(
            token="anon" if os.environ.get(_EMULATOR) else None,
            requests_timeout=ClientTimeout(sock_connect=10, sock_read=60),
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def _entries(self, prefix: str, bucket: str, *, deep: bool, limit: int = 0) -> Iterator[Entry]:
        request: dict[str, Any] = {"prefix": prefix, "fields": _FIELDS, "maxResults": limit or 1000}
        request |= {} if deep else {"delimiter": "/"}
        while True:
            try:
                page = self.file_system.call("GET", "b/{}/o", bucket, json_out=True, **request)
            except FileNotFoundError as e:
                raise self._refused(f"gs://{bucket}", "the bucket does not exist") from e
            yield from map(stored_object, page.get("items", []))
            yield from page.get("prefixes", [])
            if not page.get("nextPageToken"):
                return
            request["pageToken"] = page["nextPageToken"]

    def _head(self, bucket: str, key: str) -> StoredObject:
        headers, content = self.file_system.call("GET", "b/{}/o/{}", bucket, key)
        entry = json.loads(content)
        written = datetime.datetime.fromisoformat(entry["updated"])
        return stored_object(entry, seconds_between(written, headers.get("Date")))

    def read(self, path: str) -> bytes:
        """Read an object; see `ObjectStore.read`."""
        try:
            return super().read(path)
        except FileNotFoundError:
            self.is_dir(path)  # raises if the bucket does not exist
            raise

    def _write_if(self, bucket: str, key: str, data: bytes, version: str) -> str:
        # Emulators heed conditions only for this type of upload.
        boundary = uuid.uuid4().hex
        about = json.dumps({"name": key}).encode()
        body = b"".join(
            b"--%s\r\nContent-Type: %s\r\n\r\n%s\r\n" % (boundary.encode(), kind, part)
            for kind, part in ((b"application/json", about), (b"application/octet-stream", data))
        )
        answer = self.file_system.call(
            "POST",
            self.file_system.base.removesuffix("storage/v1/") + "upload/storage/v1/b/{}/o",
            bucket,
            uploadType="multipart",
            ifGenerationMatch=version or "0",
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
            data=body + b"--%s--" % boundary.encode(),
            json_out=True,
        )
        return str(answer["generation"])

    def _upload(self, local_path: str, name: str) -> None:
        self.file_system.put_file(local_path, name, chunksize=_CHUNK_BYTES)

    def _translate(self, error: Exception, path: str) -> Exception | None:
        from aiohttp import ClientError
        from gcsfs.retry import HttpError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        if isinstance(error, FileNotFoundError):
            return missing(path)
        if isinstance(error, FileExistsError):
            return taken(path)
        if isinstance(error, HttpError):
            return self._refused(path, f"{error.code} ({_first_line(error)})")
        if isinstance(error, OSError) and str(error).startswith("Forbidden"):
            return self._refused(path, f"403 ({_first_line(error)})")
        if isinstance(error, ClientError | RequestException | GoogleAuthError | TimeoutError):
            endpoint = os.environ.get(_EMULATOR) or "storage.googleapis.com"
            return self._unanswered(path, error, endpoint, _EMULATOR)
        return None


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[-1][:300] if lines else type(error).__name__


def stored_object(entry: dict[str, Any], age: float = 0.0) -> StoredObject:
    """Return the metadata in a listing's entry, `age` seconds after the object was written."""
    # A composed object has no MD5.
    checksum = entry.get("md5Hash") or f"{entry.get('crc32c')} {entry['generation']}"
    return StoredObject(
        key=entry["name"],
        size=int(entry.get("size", 0)),
        etag=checksum,
        version=str(entry["generation"]),
        age=age,
    )
