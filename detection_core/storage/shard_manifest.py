"""Examples whose shards lie elsewhere: the file that lists them, beside no shard at all.

A split's folder then holds `examples.tfrecord_manifest.json`, which the pattern of its TFRecord files finds,
in place of the files. A remote shard's address is its URI with what is known of it behind a `#`, so that
whoever has the address can check a copy and count its examples without asking the store.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from detection_core.errors import DataError
from detection_core.storage import files

MANIFEST_NAME = "examples.tfrecord_manifest.json"

_FACTS = re.compile(r"#bytes=(\d+)&crc32c=([0-9a-f]{8})&examples=(\d+)$")


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

    @property
    def address(self) -> str:
        """The URI as readers get it; that of a local file is its path alone."""
        if not files.is_remote(self.uri):
            return self.uri
        return f"{self.uri}#bytes={self.size}&crc32c={self.crc32c}&examples={self.examples}"


def parse_address(address: str) -> Shard | None:
    """Return the shard that an address tells of, None for a plain path."""
    match = _FACTS.search(address)
    if not match:
        return None
    size, crc32c, examples = match.groups()
    return Shard(uri=address[: match.start()], size=int(size), crc32c=crc32c, examples=int(examples))


def uri_of(address: str) -> str:
    """Return an address without what it tells of the shard."""
    return _FACTS.sub("", address)


def format_manifest(shards: Sequence[Shard]) -> str:
    """Return the text of a split's manifest, which begins with a digest of the rest."""
    rows = [dataclasses.asdict(shard) for shard in shards]
    return json.dumps({"digest": _digest(rows), "shards": rows}, indent=1) + "\n"


def _digest(rows: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def read_manifest(path: str) -> list[Shard]:
    """Read a split's manifest.

    Raises:
        DataError: when the file is something else, was changed or lists nothing.
    """
    try:
        content = json.loads(files.read_text(path))
        shards = [Shard(**row) for row in content["shards"]]
        if not shards or content["digest"] != _digest(content["shards"]):
            raise ValueError("its digest is not that of the shards in it" if shards else "no shard")
        return shards
    except (ValueError, TypeError, KeyError) as e:
        raise DataError(
            f"expected a list of shards as ExampleGen writes it, found something else ({e}); run it again",
            where=path,
        ) from e
