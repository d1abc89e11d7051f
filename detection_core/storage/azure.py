"""Azure Blob Storage and Data Lake Storage, with adlfs."""

import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

from detection_core.errors import ConfigError, DataError
from detection_core.storage.object_store import PARTS_AT_ONCE, ObjectStore
from detection_core.storage.store_connection import Entry, StoredObject, missing, seconds_between, taken

_VARIABLES = (
    "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_TENANT_ID",
)  # fmt: skip
_COPY_SECONDS = 3600.0


class AzureStore(ObjectStore):
    """Blobs of one storage account; paths begin with the container's name.

    Where adlfs would guess whether a path is a folder, requests use its client directly.
    """

    schemes = ("abfs", "abfss", "az")
    extra = "azure"
    module = "adlfs"
    sign_in = "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_CONNECTION_STRING"
    _read_options: ClassVar[dict[str, Any]] = {"max_concurrency": 1}

    def _settings(self) -> tuple[str, ...]:
        return tuple(os.environ.get(name, "") for name in _VARIABLES)

    def _connect(self) -> Any:
        adlfs = self._import()
        if not (os.environ.get(_VARIABLES[0]) or os.environ.get(_VARIABLES[1])):
            raise ConfigError(
                f"expected a storage account for {self.schemes[0]}:// paths, found none; set {self.sign_in}",
                where=_VARIABLES[1],
            )
        try:
            return adlfs.AzureBlobFileSystem(use_listings_cache=False, skip_instance_cache=True)
        except ValueError as e:
            raise ConfigError(
                f"expected a storage account, found none that can be used ({e}); set {self.sign_in} again"
            ) from e

    def _split(self, path: str) -> tuple[str, str]:
        bucket, key = super()._split(path)
        if "?" in key:
            # adlfs treats the rest as a query and would open another blob.
            raise DataError("expected a name without a question mark; rename the blob", where=path)
        # `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/...`, the form of Azure's own tools.
        return bucket.partition("@")[0], key

    def _wait(self, coroutine: Any, *arguments: Any) -> Any:
        from fsspec.asyn import sync

        return sync(self.file_system.loop, coroutine, *arguments)

    def _entries(self, prefix: str, bucket: str, *, deep: bool, limit: int = 0) -> Iterator[Entry]:
        container = self.file_system.service_client.get_container_client(bucket)
        options = {"name_starts_with": prefix, "results_per_page": limit or None, "include": ["metadata"]}
        listed = container.list_blobs(**options) if deep else container.walk_blobs(delimiter="/", **options)
        pages = listed.by_page()
        while (page := self._wait(_next_page, pages)) is not None:
            for blob in page:
                if not hasattr(blob, "etag"):
                    yield blob.name
                elif not is_folder(blob):
                    yield stored_object(blob)

    def _blob(self, bucket: str, key: str) -> Any:
        return self.file_system.service_client.get_blob_client(bucket, key)

    def _head(self, bucket: str, key: str) -> StoredObject:
        dates: list[str | None] = []

        async def ask() -> Any:
            def note(answer: Any) -> None:
                dates.append(answer.http_response.headers.get("Date"))

            return await self._blob(bucket, key).get_blob_properties(raw_response_hook=note)

        found = self._wait(ask)
        return stored_object(found, seconds_between(found.last_modified, dates[-1]))

    def _write_if(self, bucket: str, key: str, data: bytes, version: str) -> str:
        from azure.core import MatchConditions

        condition = {"etag": version, "match_condition": MatchConditions.IfNotModified} if version else {}

        async def write() -> Any:
            return await self._blob(bucket, key).upload_blob(data, overwrite=bool(version), **condition)

        return str(self._wait(write)["etag"])

    def _upload(self, local_path: str, name: str) -> None:
        self.file_system.put_file(local_path, name, max_concurrency=PARTS_AT_ONCE)

    def _copy(self, source: str, destination: str) -> None:
        """Copy a blob and wait, because the service may answer before the copy is complete."""
        here, there = (self._blob(*name.split("/", 1)) for name in (source, destination))

        async def start() -> Any:
            return await there.start_copy_from_url(here.url)

        async def ask() -> Any:
            return await there.get_blob_properties()

        status, until = self._wait(start)["copy_status"], time.monotonic() + _COPY_SECONDS
        while status == "pending" and time.monotonic() < until:
            time.sleep(1)
            status = self._wait(ask).copy.status
        if status != "success":
            raise self._refused(f"{self.schemes[0]}://{destination}", f"a copy that ended with {status!r}")

    def _translate(self, error: Exception, path: str) -> Exception | None:
        from azure.core.exceptions import AzureError, HttpResponseError

        cause = error.__cause__ if isinstance(error, FileNotFoundError | FileExistsError) else error
        if not isinstance(cause, HttpResponseError):
            if isinstance(error, FileNotFoundError):
                return missing(path)
            if isinstance(error, AzureError):
                account = os.environ.get(_VARIABLES[1]) or "Azure"
                return self._unanswered(path, error, account, "the account's name")
            return None
        code = getattr(cause, "error_code", None) or cause.status_code or ""
        code = str(getattr(code, "value", code))
        if code == "BlobNotFound" or (cause.status_code == 404 and code in ("404", "ResourceNotFound")):
            return missing(path)
        if cause.status_code in (409, 412) and code in ("BlobAlreadyExists", "ConditionNotMet"):
            return taken(path)
        return self._refused(path, f"{code} ({str(cause).splitlines()[0][:300]})")


def is_folder(blob: Any) -> bool:
    """Return whether a listed blob is a folder, in an account with a hierarchical namespace."""
    return {name.lower(): text for name, text in (blob.metadata or {}).items()}.get("hdi_isfolder") == "true"


async def _next_page(pages: AsyncIterator[Any]) -> list[Any] | None:
    try:
        return [blob async for blob in await anext(pages)]
    except StopAsyncIteration:
        return None


def stored_object(blob: Any, age: float = 0.0) -> StoredObject:
    """Return a blob's metadata, `age` seconds after it was written."""
    # An ETag means the same with and without quotation marks.
    etag = '"{}"'.format(blob.etag.strip('"'))
    return StoredObject(key=blob.name, size=int(blob.size), etag=etag, version=etag, age=age)
