"""Where a verb writes what it makes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder


@contextlib.contextmanager
def output_folder(path: str, *, keep_unfinished: bool = True) -> Iterator[str]:
    """Yield a local folder for the results of a verb, which are at `path` when the block has ended well.

    Args:
        path: the folder that the user named; on an object store it gets everything at the end.
        keep_unfinished: what a block that failed has written stays, to go on from; else the folder is as it
            was before.

    Raises:
        ConfigError: when the folder cannot be made.
    """
    if files.is_remote(path):
        with ScratchFolder() as folder:
            yield folder
            files.copy_tree(folder, path)
        return
    if keep_unfinished:
        make_folder(path)
        yield path
        return
    before = set(os.listdir(path)) if os.path.isdir(path) else set()
    made = _missing_folders(path)
    make_folder(path)
    try:
        yield path
    except BaseException:
        for name in set(os.listdir(path)) - before:
            files.remove_tree(os.path.join(path, name))
        for folder in made:
            os.rmdir(folder)
        raise


def _missing_folders(path: str) -> list[str]:
    """Return those of a folder and the ones above it that are not there, innermost first."""
    missing, folder = [], os.path.abspath(path)
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


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
