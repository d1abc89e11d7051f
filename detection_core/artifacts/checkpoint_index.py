"""Check a checkpoint's index before TensorFlow reads it, because TensorFlow aborts on impossible shapes.

An index is a sorted string table in LevelDB's format. Blocks hold keys that share prefixes; one more block
lists the blocks. Values are `BundleEntryProto`s. In the oldest format of TensorFlow 1 they are
`SavedTensorSlices`, with the values in the same file.
"""

import dataclasses
import math
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.errors import ModelError, as_read_error
from detection_core.storage import files

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES, _TRAILER_BYTES = 48, 5
_CHECKSUM_BYTES, _VARINT_BYTES = 4, 10
_PLAIN, _SNAPPY = 0, 1
# Snappy's best ratio: 64 bytes from 3.
_SNAPPY_RATIO = 22
# Keys share prefixes; in real checkpoints all keys together take about ten times the file's bytes.
_KEY_RATIO, _LEAST_KEY_BYTES = 200, 2**20
_MAX_RANK = 254
_MAX_BYTES = 2**31
_MAX_ELEMENTS = 2**62


class _Damage(ValueError):
    """The index is damaged."""


def check_index(prefix: str, *, where: str = "") -> None:
    """Refuse a checkpoint whose index contradicts itself or its files.

    Files are compared only if they are on this machine.

    Args:
        prefix: of the checkpoint's files, or the one file of the oldest format.
        where: path for errors; "" is the prefix.

    Raises:
        ModelError: when the index is damaged.
        StorageError: when the system cannot read it.
    """
    from google.protobuf.message import DecodeError

    path = f"{prefix}.index"
    is_bundle = files.exists(path)
    try:
        entries = dict(_entries(_read(path if is_bundle else prefix)))
        if b"" not in entries:
            raise _Damage("an index without its header")
        if is_bundle:
            _check_bundle(entries, prefix)
        else:
            _check_slices(entries)
    except OSError as error:
        if known := as_read_error(error):
            raise known from error
        raise
    except (_Damage, DecodeError, UnicodeDecodeError, struct.error, IndexError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(
            f"expected a readable checkpoint, found a damaged or truncated one ({reason}); copy it again",
            where=where or prefix,
        ) from error


def _read(path: str) -> bytes:
    try:
        return files.read_regular(path, _MAX_BYTES)
    except OSError as error:
        if error.errno not in files.IRREGULAR:
            raise  # not about the file's content
        raise _Damage(f"an index that is none: {error.strerror}") from error


def _entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(content) < _FOOTER_BYTES or struct.unpack("<Q", content[-8:])[0] != _MAGIC:
        raise _Damage("an index without its end")
    footer = _Bytes(content[-_FOOTER_BYTES:-8])
    footer.varint(), footer.varint()  # the metaindex block
    listing = _block(content, footer.varint(), footer.varint())
    read, keys = 0, 0
    for _, handle in _pairs(listing):
        place = _Bytes(handle)
        block = _block(content, place.varint(), place.varint())
        read += len(block)
        if read > _SNAPPY_RATIO * len(content):
            raise _Damage("blocks that are listed again and again")
        for key, value in _pairs(block):
            keys += len(key)
            if keys > _KEY_RATIO * len(content) + _LEAST_KEY_BYTES:
                raise _Damage("keys that share their bytes, many times over")
            yield key, value


@dataclasses.dataclass
class _Bytes:
    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise _Damage("a part that ends behind the index's end")
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES, 7):
            (byte,) = self.take(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise _Damage("a number of more than ten bytes")


def _block(content: bytes, offset: int, size: int) -> bytes:
    stored = content[offset : offset + size + _TRAILER_BYTES]
    if len(stored) != size + _TRAILER_BYTES:
        raise _Damage("a block that ends behind the index's end")
    if stored[size] == _PLAIN:
        return stored[:size]
    if stored[size] == _SNAPPY:
        return _uncompressed(stored[:size])
    raise _Damage(f"a block of compression {stored[size]}")


def _uncompressed(data: bytes) -> bytes:
    """Decompress Snappy: literals, and copies of earlier output."""
    source, result = _Bytes(data), bytearray()
    length = source.varint()
    if length > _SNAPPY_RATIO * len(data) + 64:
        raise _Damage("a block that is larger than what it is made of")
    while len(result) < length:
        (tag,) = source.take(1)
        if tag & 3 == 0:
            count = tag >> 2
            extra = max(0, count - 59)
            count = int.from_bytes(source.take(extra), "little") if extra else count
            result += source.take(count + 1)
            continue
        if tag & 3 == 1:
            count, back = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | source.take(1)[0]
        else:
            count, back = (tag >> 2) + 1, int.from_bytes(source.take(2 if tag & 3 == 2 else 4), "little")
        if not 0 < back <= len(result):
            raise _Damage("a copy of what is not there")
        for _ in range(count):
            result.append(result[-back])
    if len(result) != length:
        raise _Damage("a block of another length than it says")
    return bytes(result)


def _pairs(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield a block's keys and values, and check its restart points."""
    count = struct.unpack_from("<I", block, len(block) - 4)[0] if len(block) >= 4 else 0
    end = len(block) - 4 * (count + 1)
    if end < 0 or not count:
        raise _Damage("a block without its end")
    whole, key, before = set(), b"", None
    part = _Bytes(block[:end])
    while part.at < end:
        start = part.at
        shared, added, size = part.varint(), part.varint(), part.varint()
        if shared > len(key):
            raise _Damage("a key that shares more than there is")
        if not shared:
            whole.add(start)
        key = key[:shared] + part.take(added)
        if before is not None and key <= before:
            raise _Damage("keys that are not in order")
        before = key
        yield key, part.take(size)
    restarts = struct.unpack_from(f"<{count}I", block, end)
    if end and not whole.issuperset(restarts):
        raise _Damage("a key that does not stand whole")


def _check_bundle(entries: Mapping[bytes, bytes], prefix: str) -> None:
    from tensorflow.core.framework import types_pb2
    from tensorflow.core.protobuf import tensor_bundle_pb2 as bundle

    shards = bundle.BundleHeaderProto.FromString(entries[b""]).num_shards
    for key, value in entries.items():
        if not key:
            continue
        entry = bundle.BundleEntryProto.FromString(value)
        name = key.decode(errors="replace")
        elements = _elements(entry.shape, name)
        for part in entry.slices:
            _check_slice(part, entry.shape, name)
        if not 0 <= entry.shard_id < max(shards, 1) or min(entry.offset, entry.size) < 0:
            raise _Damage(f"{name} in a file that there is not")
        if not entry.slices:
            _check_size(entry, elements, name)
        path = f"{prefix}.data-{entry.shard_id:05d}-of-{shards:05d}"
        if os.path.exists(path):
            if entry.offset + entry.size > os.path.getsize(path):
                raise _Damage(f"{name} behind the end of its file")
            if entry.dtype == types_pb2.DT_STRING and elements and not entry.slices:
                _check_texts(path, entry, elements, name)


def _check_texts(path: str, entry: Any, elements: int, name: str) -> None:
    """Refuse strings whose lengths, checksum and contents exceed their part of the file."""
    with open(path, "rb") as file:
        file.seek(entry.offset)
        part = _Bytes(file.read(min(entry.size, elements * _VARINT_BYTES)))
    lengths = [part.varint() for _ in range(elements)]
    if part.at + _CHECKSUM_BYTES + sum(lengths) != entry.size:
        raise _Damage(f"{name} with texts of {sum(lengths)} bytes in {entry.size}")


def _elements(shape: Any, name: str) -> int:
    sides = [dimension.size for dimension in shape.dim]
    if shape.unknown_rank or len(sides) > _MAX_RANK or min(sides, default=0) < 0:
        raise _Damage(f"{name} with a shape of {len(sides)} dimensions, the least {min(sides, default=0)}")
    # A side of 0 must not hide an overflow of the other sides: TensorFlow checks them all.
    if math.prod(max(side, 1) for side in sides) > _MAX_ELEMENTS:
        raise _Damage(f"{name} with a shape of more elements than can be counted")
    return math.prod(sides)


def _check_slice(part: Any, shape: Any, name: str) -> None:
    if len(part.extent) != len(shape.dim):
        raise _Damage(f"{name} with a part of another shape")
    for extent, dimension in zip(part.extent, shape.dim, strict=True):
        length = extent.length if extent.HasField("length") else dimension.size - extent.start
        if not 0 <= extent.start <= extent.start + length <= dimension.size:
            raise _Damage(f"{name} with a part that lies outside of it")


def _check_size(entry: Any, elements: int, name: str) -> None:
    """Refuse a value whose size does not fit its shape and type; a string takes at least one byte."""
    from tensorflow.python.framework import dtypes

    try:
        dtype = dtypes.as_dtype(entry.dtype)
    except TypeError as error:
        raise _Damage(f"{name} of a type {entry.dtype} that there is not") from error
    fixed = dtype.is_numpy_compatible and dtype not in (dtypes.string, dtypes.resource, dtypes.variant)
    if elements > entry.size if not fixed else elements * dtype.size != entry.size:
        raise _Damage(f"{name} of {entry.size} bytes for {elements} elements of {dtype.name}")


def _check_slices(entries: Mapping[bytes, bytes]) -> None:
    from tensorflow.core.util import saved_tensor_slice_pb2 as slices

    for tensor in slices.SavedTensorSlices.FromString(entries[b""]).meta.tensor:
        _elements(tensor.shape, tensor.name)
        for part in tensor.slice:
            _check_slice(part, tensor.shape, tensor.name)
