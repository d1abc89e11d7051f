from __future__ import annotations

import pytest

from detection_core.errors import DataError
from detection_core.storage import files
from detection_core.storage.shard_manifest import (
    Shard,
    format_manifest,
    read_manifest,
    uri_of,
)

REMOTE = Shard(uri="s3://b/x#1/a.tfrecord.gz", size=12, crc32c="0012abcd", examples=3)
LOCAL = Shard(uri="/data/a.tfrecord", size=12, crc32c="0012abcd", examples=3)


def test_a_file_is_where_its_shard_or_its_path_says():
    assert uri_of(REMOTE) == uri_of(REMOTE.uri) == "s3://b/x#1/a.tfrecord.gz"


def test_a_manifest_is_read_back_and_any_change_shows_at_its_beginning(tmp_path):
    path = str(tmp_path / "manifest.json")
    files.write_text(path, format_manifest([REMOTE, LOCAL]))
    assert read_manifest(path) == [REMOTE, LOCAL]
    assert format_manifest([REMOTE])[:90] != format_manifest([LOCAL])[:90]


@pytest.mark.parametrize("text", ["[", "[]", '{"shards": [{"uri": "a"}]}', '{"shards": 3}'])
def test_what_is_no_manifest_is_refused_by_name(tmp_path, text):
    path = str(tmp_path / "manifest.json")
    files.write_text(path, text)
    with pytest.raises(DataError, match="expected a list of shards") as raised:
        read_manifest(path)
    assert raised.value.where == path
