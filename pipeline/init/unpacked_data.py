"""The data set of a first workflow, where it comes as a zip archive."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from detection_core.errors import ConfigError, DetectionError
from detection_core.storage import files
from detection_core.storage.zip_archive import describe_zip, is_zip, unpack_zip

DATA = "data"
"""Folder of the unpacked files, beside those of the workflow."""

_RECORD = ".detflow-zip"


@contextlib.contextmanager
def unpacked(data: str, folder: str) -> Iterator[str]:
    """Yield where the data are: in the folder that an archive is unpacked into, or where they were.

    An archive that was unpacked before is not unpacked again. What is unpacked is removed where the block
    raises a DetectionError.

    Args:
        data: a folder, or a zip archive on this machine.
        folder: of the workflow.

    Raises:
        ConfigError: when the folder for it holds something else.
        DataError: for an archive that cannot be unpacked.
    """
    if files.is_remote(data) or not is_zip(data):
        yield data
        return
    target = os.path.abspath(os.path.join(folder, DATA))
    record, known = os.path.join(target, _RECORD), describe_zip(data)
    if os.path.lexists(target):
        if not os.path.isfile(record) or files.read_text(record) != known:
            raise ConfigError(
                f"expected no folder, or the files of {data}, found others; name another folder with -o, or"
                " move it away",
                where=target,
            )
        yield target
        return
    with files.atomic_dir(target) as temporary:
        unpack_zip(data, temporary)
        files.write_text(os.path.join(temporary, _RECORD), known)
    try:
        yield target
    except DetectionError:
        files.remove_tree(target)
        with contextlib.suppress(OSError):  # it holds something else
            os.rmdir(folder)
        raise
