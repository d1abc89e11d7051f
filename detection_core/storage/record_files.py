"""TFRecord files whose size and checksum are known before they are opened."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """A TFRecord file.

    Attributes:
        uri: where it is, local or on an object store.
        size: in bytes.
        crc32c: checksum of all its bytes, eight hexadecimal digits.
        examples: how many records it holds.
    """

    uri: str
    size: int
    crc32c: str
    examples: int


RecordFile = Shard | str
"""A TFRecord file: a shard that a manifest describes, or the path or URI of any other."""


def uri_of(file: RecordFile) -> str:
    """Return the path or URI of a file."""
    return file.uri if isinstance(file, Shard) else file
