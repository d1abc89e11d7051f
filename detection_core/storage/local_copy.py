"""Temporary local copies of files on stores that TensorFlow cannot open."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder


@contextlib.contextmanager
def local_copy(path: str) -> Iterator[str]:
    """Yield a path that TensorFlow can open: the file or folder itself, or a copy deleted after the block.

    Raises:
        FileNotFoundError: when nothing is there.
        DataError: when the store does not answer.
    """
    if files.opened_by_tensorflow(path):
        yield path
        return
    with ScratchFolder() as scratch:
        copy = os.path.join(scratch, path.rstrip("/").rpartition("/")[2])
        if files.is_dir(path):
            files.copy_tree(path, copy)
        else:
            files.download(path, copy)
        yield copy
