"""The TFRecord format without TensorFlow: write records, and check the structure of a file.

Without TensorFlow, a worker of ExampleGen starts quickly. TensorFlow allocates as much memory as a record's
length field says, and crashes if that fails. It also ignores a file end inside a record's header.
"""

import gzip
import os
import struct
import zlib
from typing import IO, Any

import google_crc32c

from detection_core.errors import DataError


def write_record(file: IO[bytes] | gzip.GzipFile, data: bytes) -> None:
    """Append one record: length, checksum of the length, data, checksum of the data."""
    length = struct.pack("<Q", len(data))
    file.write(length + struct.pack("<I", masked_checksum(length)))
    file.write(data)
    file.write(struct.pack("<I", masked_checksum(data)))


def masked_checksum(data: bytes) -> int:
    """Return the CRC-32C in TFRecord's rotated form, so that a checksum over itself is not 0."""
    checksum = google_crc32c.value(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


# Each record is: length (8 bytes), its checksum (4), the data, their checksum (4).
HEADER_BYTES, FOOTER_BYTES = 12, 4

MAX_RECORD_BYTES = 1 << 30
"""Longer records are refused; a protocol buffer holds at most twice this many bytes."""

_PIECE = 1 << 20


def is_gzip(path: str) -> bool:
    """Tell from its name whether a file is compressed."""
    return path.endswith((".gz", ".gzip"))


def count_local_records(path: str) -> int:
    """Count a local file's records by their lengths; DataError names the first truncated or too long."""
    if not os.path.isfile(path):
        raise DataError("expected a TFRecord file, found none; make the examples again", where=path)
    if is_gzip(path):
        return _count_compressed(path)
    size, offset, count = os.path.getsize(path), 0, 0
    with open(path, "rb") as file:
        while offset < size:
            length = _length(os.pread(file.fileno(), HEADER_BYTES, offset), path, count)
            offset += HEADER_BYTES + length + FOOTER_BYTES
            if offset > size:
                raise bad_record(path, count, "the file ends inside it, or it is no TFRecord file")
            count += 1
    return count


def _count_compressed(path: str) -> int:
    count = 0
    try:
        with gzip.open(path, "rb") as file:
            while header := file.read(HEADER_BYTES):
                _skip(file, _length(header, path, count) + FOOTER_BYTES, path, count)
                count += 1
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise bad_record(
            path, count, f"its checksum does not fit, or the file ends inside it ({error})"
        ) from error
    return count


def _skip(file: IO[bytes] | Any, size: int, path: str, count: int) -> None:
    while size:
        piece = file.read(min(size, _PIECE))
        if not piece:
            raise bad_record(path, count, "the file ends inside it")
        size -= len(piece)


def _length(header: bytes, path: str, count: int) -> int:
    if len(header) < HEADER_BYTES:
        raise bad_record(path, count, "the file ends inside it, or it is no TFRecord file")
    length, checksum = struct.unpack("<QI", header)
    if masked_checksum(header[:8]) != checksum:
        raise bad_record(path, count, "the checksum of its length does not fit, or it is no TFRecord file")
    if length > MAX_RECORD_BYTES:
        raise bad_record(
            path, count, f"it says that it has {length:,} bytes, of at most {MAX_RECORD_BYTES:,}"
        )
    return int(length)


def bad_record(path: str, index: int, reason: str) -> DataError:
    """Return the error for a damaged record."""
    renamed = "" if is_gzip(path) else " (a GZIP file's name must end in .gz)"
    return DataError(
        f"expected an intact TFRecord, found record {index} damaged: {reason}{renamed}; make the file again "
        "or leave it out of input_path",
        where=f"{path}, record {index}",
    )
