"""Manifest of shards stored elsewhere: examples.tfrecord_manifest.json in a split's folder.

The file pattern of a split's TFRecord files matches the manifest instead. It gives size, checksum and number
of examples of each shard. A reader can check a copy and count its examples without a request to the store.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import encode
from detection_core.errors import ContractError
from detection_core.storage.shard_cache import Shard


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardManifest:
    """The content of a split's manifest.

    Attributes:
        digest: SHA-256 of the JSON of the shards, so any change shows at the beginning of the file.
        shards: TFRecord files of the split, in order.
    """

    digest: str
    shards: list[Shard]


MANIFEST = JsonFile(
    name="examples.tfrecord_manifest.json",
    content=ShardManifest,
    writer="ExampleGen",
    remedy="make the examples again",
)


def write_manifest(folder: str, shards: Sequence[Shard]) -> None:
    """Write the manifest into a split's folder."""
    MANIFEST.write(folder, ShardManifest(digest=_digest(shards), shards=list(shards)))


def _digest(shards: Sequence[Shard]) -> str:
    return hashlib.sha256(json.dumps(encode(shards), sort_keys=True).encode()).hexdigest()


def read_manifest(folder: str) -> list[Shard]:
    """Read the manifest of a split's folder; ContractError when missing, changed or without shards."""
    manifest = MANIFEST.read(folder)
    if not manifest.shards or manifest.digest != _digest(manifest.shards):
        found = "another: the file was changed" if manifest.shards else "no shard"
        raise ContractError(
            f"expected shards and their digest, found {found}; {MANIFEST.remedy}", where=MANIFEST.path(folder)
        )
    return manifest.shards
