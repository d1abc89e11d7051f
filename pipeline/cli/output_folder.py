"""Output folders of verbs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder


@contextlib.contextmanager
def output_folder(path: str, *, keep_unfinished: bool = True) -> Iterator[str]:
    """Yield a local folder for the results of a verb; on success they are at `path`.

    On an object store, results are uploaded at the end. A failed block keeps its files for a later resume, or
    the folder is restored without `keep_unfinished`.

    Raises:
        ConfigError: when the folder cannot be created.
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
    """Return the missing folders of a path, innermost first."""
    missing, folder = [], os.path.abspath(path)
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def make_folder(path: str) -> None:
    """Create a folder if it does not exist.

    Raises:
        ConfigError: when it cannot be created.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise ConfigError(
            f"cannot make the output folder ({e.strerror}); choose another --output", where=path
        ) from e
