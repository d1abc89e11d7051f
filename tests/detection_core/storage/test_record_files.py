from detection_core.storage.record_files import Shard, uri_of


def test_a_file_is_where_its_shard_or_its_path_says():
    shard = Shard(uri="s3://b/x#1/a.tfrecord.gz", size=12, crc32c="0012abcd", examples=3)
    assert uri_of(shard) == uri_of(shard.uri) == "s3://b/x#1/a.tfrecord.gz"
