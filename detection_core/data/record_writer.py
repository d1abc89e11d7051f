"""TFRecord files written without TensorFlow, so that a worker of ExampleGen starts at once."""

from __future__ import annotations

import gzip
import struct
from typing import IO

import google_crc32c


def write_record(file: IO[bytes] | gzip.GzipFile, data: bytes) -> None:
    """Append one record: length, checksum of the length, data, checksum of the data.

    Args:
        file: open for writing bytes.
        data: the record, usually a serialised `tf.train.Example`.
    """
    length = struct.pack("<Q", len(data))
    file.write(length + struct.pack("<I", masked_checksum(length)))
    file.write(data)
    file.write(struct.pack("<I", masked_checksum(data)))


def masked_checksum(data: bytes) -> int:
    """Return the CRC-32C of some bytes as TFRecord files hold it: rotated, so that one of itself is no 0."""
    checksum = google_crc32c.value(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
