"""Unpack the data set of a first workflow from a zip archive."""

import contextlib
import os
from collections.abc import Iterator

from detection_core.errors import ConfigError, DetectionError
from detection_core.storage import files
from detection_core.storage.zip_archive import describe_zip, is_zip, unpack_zip

DATA = "data"
"""Folder of the unpacked files, beside the workflow's files."""

_RECORD = ".detflow-zip"


@contextlib.contextmanager
def unpacked(data: str, folder: str) -> Iterator[str]:
    """Yield the folder of the data: unpacked from a local zip archive, or unchanged.

    An archive is unpacked only once. Files unpacked now are removed if the block raises a DetectionError.

    Raises:
        ConfigError: when the target folder holds something else.
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
        with contextlib.suppress(OSError):  # it is not empty
            os.rmdir(folder)
        raise
