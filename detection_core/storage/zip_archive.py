"""Unpack untrusted zip archives."""

import errno
import hashlib
import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from detection_core.errors import DataError, shorten

MOST_FILES = 2_000_000
MOST_TIMES = 200
"""Largest ratio of content to archive size; text of boxes shrinks to a thirtieth."""

SMALL = 64 << 20
"""Content size that is always allowed, in bytes."""

_CHUNK = 1 << 20
_MOST_FOLDERS = 100
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Other methods take up to 4 GB of memory, and raise many kinds of errors for damaged data."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, UnicodeError)
_NO_NAME = (errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
_PASSED_OVER = ("__MACOSX", ".DS_Store")


def is_zip(path: str) -> bool:
    """Return whether a local file is a zip archive, by name and content."""
    return path.lower().endswith(".zip") and os.path.isfile(path) and zipfile.is_zipfile(path)


def describe_zip(archive: str) -> str:
    """Return a text that differs for archives with other files; DataError for a damaged archive."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                digest.update(f"{member.filename!a} {member.file_size} {member.CRC}\n".encode())
    except _DAMAGE as e:
        raise _damaged(archive, e) from e
    return digest.hexdigest()


def unpack_zip(archive: str, folder: str) -> None:
    """Unpack a local archive into an existing, empty folder.

    Raises:
        DataError: for an archive that is damaged, encrypted or too large, or has links, duplicate names or
            names outside the folder. Files written before the error stay.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            for member, path in _members(opened, archive, shutil.disk_usage(folder).free):
                _write(opened, member, os.path.join(folder, path), archive)
    except _DAMAGE as e:
        raise _damaged(archive, e) from e


def _members(opened: zipfile.ZipFile, where: str, free: int) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """Yield files with their paths; all are checked before the first."""
    members: dict[str, zipfile.ZipInfo] = {}
    limit = min(free, max(SMALL, MOST_TIMES * os.path.getsize(where)))
    total = 0
    for member in opened.infolist():
        parts = [part for part in member.filename.split("/") if part not in ("", ".")]
        if member.is_dir() or not parts or parts[0] == _PASSED_OVER[0] or parts[-1] in _PASSED_OVER:
            continue
        path, total = "/".join(parts), total + member.file_size
        name = member.orig_filename
        fault = _fault(member, parts)
        if fault:
            raise _refused(f"{shorten(name)}, which {fault}", where)
        if path in members or len(members) >= MOST_FILES:
            raise _refused(f"{shorten(name)} twice, or more than {MOST_FILES:,} files", where)
        if total > limit:
            raise _refused(f"more than {limit:,} bytes, for which there is no room or no reason", where)
        members[path] = member
    for path, member in members.items():
        yield member, path


def _fault(member: zipfile.ZipInfo, parts: list[str]) -> str:
    name = member.orig_filename
    if member.header_offset < 0:
        raise zipfile.BadZipFile("a file that begins before the archive")
    if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or ":" in parts[0]:
        return "leads out of its folder"
    if len(parts) > _MOST_FOLDERS:
        return "no file can be called"
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
        return "is no plain file"
    if member.flag_bits & 1:
        return "is encrypted"
    return "" if member.compress_type in _METHODS else "is compressed by another method than deflate"


def _write(opened: zipfile.ZipFile, member: zipfile.ZipInfo, path: str, where: str) -> None:
    try:
        with opened.open(member) as source:
            # Reads no more than the checked size, even if the archive contains more.
            write_member(source, path)
    except ValueError as e:
        raise _refused(f"{shorten(member.filename)}, which {e}", where) from e


def write_member(source: IO[bytes], path: str) -> None:
    """Write a member of an archive to a new file; ValueError for a path that cannot be one."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as target:
            shutil.copyfileobj(source, target, _CHUNK)
    except FileExistsError as e:
        raise ValueError("is there twice, or which no file can be called") from e
    except (OSError, ValueError) as e:
        # A folder with the name of a file, a name that is too long or has a null character.
        if isinstance(e, OSError) and e.errno not in _NO_NAME:
            raise
        raise ValueError("no file can be called") from e


def _refused(found: str, where: str) -> DataError:
    return DataError(
        f"expected a zip archive of plain files, found {found}; unpack it yourself and name the folder",
        where=where,
    )


def _damaged(archive: str, error: Exception) -> DataError:
    return DataError(
        f"expected a whole zip archive, found a damaged one ({error or type(error).__name__}); fetch it"
        " again",
        where=archive,
    )
