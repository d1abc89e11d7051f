"""Where a verb writes what it makes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

from detection_core.errors import ConfigError
from detection_core.storage import files


@contextlib.contextmanager
def output_folder(path: str) -> Iterator[str]:
    """Yield a local folder for the results of a verb, which are at `path` when the block has ended well.

    Args:
        path: the folder that the user named; on an object store it gets everything at the end.

    Raises:
        ConfigError: when the folder cannot be made.
    """
    if files.is_remote(path):
        with tempfile.TemporaryDirectory(prefix="detflow-") as folder:
            yield folder
            files.copy_tree(folder, path)
        return
    make_folder(path)
    yield path


def make_folder(path: str) -> None:
    """Make a folder; one that exists is left as it is.

    Raises:
        ConfigError: when it cannot be made.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise ConfigError(
            f"cannot make the output folder ({e.strerror}); choose another --output", where=path
        ) from e
