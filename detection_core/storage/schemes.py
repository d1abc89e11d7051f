"""The object store of each URI scheme."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from detection_core.errors import DataError
from detection_core.redaction import hide_credentials

if TYPE_CHECKING:
    from detection_core.storage.object_store import ObjectStore

# Module and class of each scheme, imported at first use.
_STORES = {
    "s3": ("detection_core.storage.s3", "S3Store"),
    "gs": ("detection_core.storage.gcs", "GcsStore"),
    "gcs": ("detection_core.storage.gcs", "GcsStore"),
    "abfs": ("detection_core.storage.azure", "AzureStore"),
    "abfss": ("detection_core.storage.azure", "AzureStore"),
    "az": ("detection_core.storage.azure", "AzureStore"),
}


def is_remote(path: str) -> bool:
    """Return whether the path has a scheme other than the local file system."""
    return "://" in path and not path.startswith("file://")


def store_of(path: str) -> ObjectStore:
    """Return the store of a remote path.

    Raises:
        DataError: for an unsupported scheme, and for a path with credentials.
    """
    scheme = path.partition("://")[0]
    if scheme in _STORES:
        if hide_credentials(path):
            raise DataError(
                "expected a path without credentials, found some in it, which logs and records would show;"
                " leave them out and sign in by the variables or files of the store's own tools",
                where=path,
            )
        return _store(*_STORES[scheme])
    known = ", ".join(f"{name}://" for name in sorted(_STORES))
    raise DataError(
        f"expected a local path or one of {known}, found {scheme}://; copy it to one of these", where=path
    )


@functools.cache
def _store(module: str, name: str) -> ObjectStore:
    store: ObjectStore = getattr(importlib.import_module(module), name)()
    return store


def opened_by_tensorflow(path: str) -> bool:
    """Return whether tf.io.gfile and tf.data open a path; others are read from a local copy."""
    return not is_remote(path) or store_of(path).opened_by_tensorflow
