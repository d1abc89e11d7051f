from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from detection_core.artifacts.feature_files import SCHEMA_FILE, STATISTICS_FILE, split_file, write_message


def test_messages_are_written_where_tfx_looks_for_them(tmp_path):
    statistics = statistics_pb2.DatasetFeatureStatisticsList()
    statistics.datasets.add(num_examples=3)
    path = split_file(str(tmp_path), "train", STATISTICS_FILE)
    write_message(path, statistics)
    written = (tmp_path / "Split-train" / "FeatureStats.pb").read_bytes()
    assert statistics_pb2.DatasetFeatureStatisticsList.FromString(written) == statistics
    write_message(str(tmp_path / SCHEMA_FILE), schema_pb2.Schema(feature=[{"name": "größe"}]))
    assert 'name: "größe"' in (tmp_path / SCHEMA_FILE).read_text(encoding="utf-8")
