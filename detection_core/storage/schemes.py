"""Which object store serves a path."""

from __future__ import annotations

from detection_core.errors import DataError
from detection_core.storage.azure import AzureStore
from detection_core.storage.gcs import GcsStore
from detection_core.storage.object_store import ObjectStore
from detection_core.storage.s3 import S3Store

_STORES: dict[str, ObjectStore] = {
    scheme: store for store in (S3Store(), GcsStore(), AzureStore()) for scheme in store.schemes
}


def is_remote(path: str) -> bool:
    """Tell whether the path names an object store or another scheme than the local file system."""
    return "://" in path and not path.startswith("file://")


def store_of(path: str) -> ObjectStore:
    """Return the store of a remote path.

    Raises:
        DataError: for a scheme that nothing serves.
    """
    scheme = path.partition("://")[0]
    if scheme in _STORES:
        return _STORES[scheme]
    known = ", ".join(f"{name}://" for name in sorted(_STORES))
    raise DataError(
        f"expected a local path or one of {known}, found {scheme}://; copy it to one of these", where=path
    )


def opened_by_tensorflow(path: str) -> bool:
    """Tell whether tf.io.gfile and tf.data open a path; others are read from a local copy."""
    return not is_remote(path) or store_of(path).opened_by_tensorflow
