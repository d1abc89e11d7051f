"""TFRecord files written without TensorFlow, so that a worker of ExampleGen starts at once."""

import gzip
import io

import tensorflow as tf

from detection_core.data.record_writer import write_record
from tests.support.cases import cases

RECORDS = [b"", b"a", b"\0" * 1000, bytes(range(256)) * 300]


def test_a_file_is_what_tensorflow_writes(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in RECORDS:
            writer.write(record)
    ours = io.BytesIO()
    for record in RECORDS:
        write_record(ours, record)
    assert ours.getvalue() == (tmp_path / "theirs").read_bytes()


@cases((open, ""), (gzip.open, "GZIP"))
def test_tensorflow_reads_the_records_back(tmp_path, *, opener, kind):
    with opener(tmp_path / "file", "wb") as file:
        for record in RECORDS:
            write_record(file, record)
    found = list(tf.data.TFRecordDataset(str(tmp_path / "file"), kind).as_numpy_iterator())
    assert found == RECORDS
