import io

import tensorflow as tf

from detection_core.data.record_writer import write_record

RECORDS = [b"", b"a", b"\0" * 1000, bytes(range(256)) * 300]


def test_a_file_is_what_tensorflow_writes(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in RECORDS:
            writer.write(record)
    ours = io.BytesIO()
    for record in RECORDS:
        write_record(ours, record)
    assert ours.getvalue() == (tmp_path / "theirs").read_bytes()
