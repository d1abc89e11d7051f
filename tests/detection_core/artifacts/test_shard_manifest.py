from detection_core.artifacts.shard_manifest import MANIFEST, read_manifest, write_manifest
from detection_core.errors import ContractError
from detection_core.storage.record_files import Shard
from tests.support.cases import refused

REMOTE = Shard(uri="s3://b/x#1/a.tfrecord.gz", size=12, crc32c="0012abcd", examples=3)
LOCAL = Shard(uri="/data/a.tfrecord", size=12, crc32c="0012abcd", examples=3)


def test_a_manifest_is_read_back_and_any_change_of_it_is_noticed(tmp_path):
    folder, beginnings = str(tmp_path), set()
    for shards in ([REMOTE, LOCAL], [REMOTE], [LOCAL]):
        write_manifest(folder, shards)
        assert read_manifest(folder) == shards
        beginnings.add((tmp_path / MANIFEST.name).read_text()[:90])
    assert len(beginnings) == 3
    write_manifest(str(tmp_path), [REMOTE])
    path = tmp_path / MANIFEST.name
    path.write_text(path.read_text().replace('"size": 12', '"size": 13'))
    refused(ContractError, "the file was changed; make the examples again", read_manifest, str(tmp_path))
    write_manifest(str(tmp_path), [])
    refused(ContractError, "found no shard", read_manifest, str(tmp_path))
    for text in ("[", "[]", '{"shards": [{"uri": "a"}]}', '{"shards": 3}'):
        path.write_text(text)
        error = refused(ContractError, "expected the JSON that ExampleGen writes", read_manifest, folder)
        assert error.where == str(path), text
