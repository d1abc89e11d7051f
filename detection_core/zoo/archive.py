"""Unpack an archive of the model zoo: only the needed files, and only in the expected layout."""

import gzip
import io
import os
import tarfile
import zlib

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.errors import ModelError, shorten
from detection_core.storage.zip_archive import write_member
from detection_core.zoo.networks import ARCHIVE_SUFFIX

CHECKPOINT = "checkpoint"
"""Folder of the checkpoint in an archive."""

MOST_MEMBERS = 1_000
MOST_BYTES = 4 << 30
"""Bounds of an archive's unpacked content; the largest published one has about 60 files in 1 GB."""
_MOST_BYTES_AT_ONCE = 1 << 20
_CHUNK = 1 << 20
# tarfile converts numbers without checks, and reads headers of headers by recursion.
_DAMAGE = (
    tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError, RecursionError,
)  # fmt: skip


def unpack_detector(archive: str, folder: str, *, top: str = "", checkpoint: str = "ckpt-0") -> None:
    """Extract checkpoint and configuration of a detector's archive to an existing folder.

    The archive is a local `NAME.tar.gz` with one folder `NAME`, or `top`. The output is `checkpoint/`, with
    a checkpoint of that name, and `pipeline.config`.

    Raises:
        ModelError: for an archive that is damaged or has another layout. Also for links, paths outside the
            folder, or more than `MOST_MEMBERS` files or `MOST_BYTES` bytes.
    """
    name = top or os.path.basename(archive).removesuffix(ARCHIVE_SUFFIX)
    try:
        with gzip.open(archive, "rb") as stream:
            bounded = _Bounded(stream, archive)
            with tarfile.open(fileobj=bounded, mode="r:") as tar:
                seen = _unpack(tar, name, folder, archive)
            while bounded.read(_CHUNK):  # The checksum is at the end.
                pass
    except _DAMAGE as error:
        raise ModelError(
            f"expected a whole .tar.gz archive, found a damaged one ({error or type(error).__name__});"
            " remove it, and fetch or copy it again",
            where=archive,
        ) from error
    if f"{CHECKPOINT}/{checkpoint}.index" not in seen:
        held = ", ".join(sorted(seen)[:3]) or "none of these"
        raise ModelError(
            f"expected the archive of {name}, with {name}/{CHECKPOINT}/{checkpoint}.index in it, found"
            f" {held}; put the right archive there",
            where=archive,
        )


def _unpack(tar: tarfile.TarFile, name: str, folder: str, where: str) -> set[str]:
    """Unpack the needed files; return the paths of all files inside the archive's folder."""
    seen: set[str] = set()
    for count, member in enumerate(tar, start=1):
        if count > MOST_MEMBERS:
            raise _refused(f"more than {MOST_MEMBERS:,} files", where)
        top, _, inside = "/".join(part for part in member.name.split("/") if part != ".").partition("/")
        fault = _fault(member) or (member.isreg() and top != name and f"is not in the folder {name}")
        if fault:
            raise _refused(f"{shorten(member.name)}, which {fault}", where)
        source = tar.extractfile(member)
        if source is None:
            continue
        seen.add(inside)
        if inside == PIPELINE_CONFIG or inside.startswith(f"{CHECKPOINT}/"):
            try:
                write_member(source, os.path.join(folder, inside))
            except ValueError as error:
                raise _refused(f"{shorten(member.name)}, which {error}", where) from error
    return seen


def _fault(member: tarfile.TarInfo) -> str:
    name = member.name
    if name.startswith("/") or ".." in name.split("/") or "\0" in name or "\\" in name:
        return "leads out of its folder"
    plain = member.size >= 0 and (member.isreg() or member.isdir()) and not member.issparse()
    return "" if plain else "is no plain file"


def _refused(found: str, where: str) -> ModelError:
    return ModelError(
        f"expected an archive of plain files, found {found}; remove it, and fetch it from its publisher",
        where=where,
    )


class _Bounded(io.RawIOBase):
    """A size-limited decompressed stream, with headers, because tarfile reads headers of any size."""

    def __init__(self, stream: gzip.GzipFile, where: str) -> None:
        self._stream, self._where = stream, where

    def tell(self) -> int:
        return self._stream.tell()

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MOST_BYTES_AT_ONCE:
            raise _refused(f"a header of {size:,} bytes", self._where)
        self._check(self._stream.tell() + size)
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET:
            raise OSError("expected a position from the start")
        self._check(offset)
        return self._stream.seek(offset)

    def _check(self, position: int) -> None:
        # The stream also holds headers and padding.
        if position > MOST_BYTES + MOST_MEMBERS * (1 << 14):
            raise _refused(f"more than {MOST_BYTES:,} bytes", self._where)
