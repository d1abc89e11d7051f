"""Examples whose shards lie elsewhere: the file that lists them, beside no shard at all.

A split's folder then holds `examples.tfrecord_manifest.json`, which the pattern of its TFRecord files finds,
in place of the files. It tells size, checksum and number of examples of each shard, so that a reader can
check a copy and count its examples without asking the store.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from detection_core.errors import DataError
from detection_core.storage import files

MANIFEST_NAME = "examples.tfrecord_manifest.json"


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
