"""What lies on S3, on this disk for as long as it is read: TensorFlow opens no `s3://` path."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

from detection_core.storage import files, s3


@contextlib.contextmanager
def local_copy(path: str) -> Iterator[str]:
    """Yield a path that TensorFlow can open: the path itself, or for S3 that of a copy, gone with the block.

    Args:
        path: a file or a folder.

    Raises:
        FileNotFoundError: when nothing is there.
        DataError: when the store does not answer.
    """
    if not s3.is_s3(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="copy-") as scratch:
        copy = os.path.join(scratch, path.rstrip("/").rpartition("/")[2])
        if files.is_dir(path):
            files.copy_tree(path, copy)
        else:
            files.download(path, copy)
        yield copy
