"""Checkpoints whose index says something else, with right checksums."""

import shutil
import struct

import google_crc32c
from tensorflow.core.protobuf import tensor_bundle_pb2 as bundle

from detection_core.artifacts import checkpoint_index

KEY = b"v/.ATTRIBUTES/VARIABLE_VALUE"


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def write_table(path, entries: dict[bytes, bytes]) -> None:
    """Write a sorted table with right checksums."""
    content = b""

    def block(pairs) -> bytes:
        nonlocal content
        body, restarts = b"", []
        for key, value in pairs:
            restarts.append(len(body))
            body += b"\0" + varint(len(key)) + varint(len(value)) + key + value
        restarts = restarts or [0]
        body += struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
        handle = varint(len(content)) + varint(len(body))
        content += body + b"\0" + masked_crc(body + b"\0")
        return handle

    data = block(sorted(entries.items()))
    description = block([])
    listing = block([(b"\xff", data)])
    content += (description + listing).ljust(40, b"\0") + struct.pack("<Q", checkpoint_index._MAGIC)
    path.write_bytes(content)


def altered(saved, tmp_path, change) -> str:
    """A checkpoint whose entry of a variable is changed, with right checksums."""
    shutil.copytree(saved, tmp_path / "c", dirs_exist_ok=True)
    index = tmp_path / "c" / "ckpt.index"
    entries = dict(checkpoint_index._entries(index.read_bytes()))
    entry = bundle.BundleEntryProto.FromString(entries[KEY])
    change(entry)
    entries[KEY] = entry.SerializeToString()
    write_table(index, entries)
    return str(tmp_path / "c" / "ckpt")
