import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.data import records
from detection_core.data.decode import decode_example
from detection_core.data.record_writer import masked_checksum
from detection_core.data.records import check_readable, check_records, count_records, expand_patterns
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.record_files import example, image_bytes, write_records

RECORDS = [b"one", b"", b"three" * 100]


@cases("a.tfrecord", "a.tfrecord.gz")
def test_records_are_counted_and_read_compressed_or_not(tmp_path, *, name):
    path = write_records(tmp_path / name, RECORDS)
    assert count_records(path) == check_records(path) == 3
    assert list(records.read_records(tf.constant(path)).as_numpy_iterator()) == RECORDS


def test_renamed_missing_and_damaged_files_are_told(tmp_path):
    assert count_records(write_records(tmp_path / "a.tfrecord", [])) == 0
    path = write_records(tmp_path / "a.tfrecord.gz", RECORDS)
    renamed = Path(path).rename(tmp_path / "a.tfrecord")
    refused(DataError, r"must end in \.gz", count_records, str(renamed))
    refused(DataError, "expected a TFRecord file, found none", check_records, str(tmp_path / "none.tfrecord"))
    refused(DataError, "expected a local path or one of", check_records, "http://127.0.0.1:9/x.tfrecord")
    path = Path(write_records(tmp_path / "a.tfrecord", RECORDS))
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    assert count_records(str(path)) == 3
    refused(DataError, r"a\.tfrecord, record 2: .*record 2 damaged", check_records, str(path))
    length = struct.pack("<Q", 2**40)
    header = length + struct.pack("<I", masked_checksum(length)) + b"x" * 100
    for name, data in (("a.tfrecord", header), ("a.tfrecord.gz", gzip.compress(header))):
        (tmp_path / name).write_bytes(data)
        message = f"{name}, record 0: .*1,099,511,627,776 bytes, of at most"
        refused(DataError, message, check_records, str(tmp_path / name))


def test_patterns_keep_their_order_and_name_each_file_once(tmp_path):
    paths = [write_records(tmp_path / name, RECORDS) for name in ("b-1", "a-1", "a-2")]
    found = expand_patterns([paths[0], str(tmp_path / "a-*"), str(tmp_path / "*-1")])
    assert found == paths
    with pytest.raises(DataError, match=r"^reader: .*no pattern; set input_path"):
        expand_patterns([], where="reader")
    refused(
        DataError, r"none for '.*missing-\?'; correct input_path", expand_patterns, [f"{tmp_path}/missing-?"]
    )
    for folder in ("a[1]", "a1"):
        (tmp_path / folder).mkdir()
        write_records(tmp_path / folder / "x.tfrecord", RECORDS)
    literal, matched = f"{tmp_path}/a[1]/x.tfrecord", f"{tmp_path}/a1/x.tfrecord"
    assert expand_patterns([literal]) == [literal]
    assert expand_patterns([f"{tmp_path}/a[1]/*"]) == [matched]


def test_records_that_do_not_decode_are_named(tmp_path):
    def write(*more):
        return write_records(
            tmp_path / "a.tfrecord", [example({"image/encoded": [image_bytes(3, 3)]}), *more]
        )

    path = write(example({"image/encoded": [b"nothing"]}))
    refused(DataError, r"a\.tfrecord, record 1: .*does not decode", check_readable, path, decode_example)
    noise = np.random.default_rng(1).integers(0, 256, 300, dtype=np.uint8).tobytes()
    path = write(noise)
    refused(DataError, r"record 1: .*it is no tf\.Example", check_readable, path, decode_example)
    with pytest.raises(DataError, match="record 1: "), records.naming_bad_records([path], decode_example):
        noise.decode()
    naming = records.naming_bad_records([write()], decode_example)
    with pytest.raises(tf.errors.InvalidArgumentError, match="of the model"), naming:
        raise tf.errors.InvalidArgumentError(None, None, "of the model")


def test_a_cut_file_is_found_without_its_data_and_does_not_pass_for_a_shorter_one(tmp_path):
    path = Path(write_records(tmp_path / "a.tfrecord", RECORDS))
    whole = path.read_bytes()
    for kept in (5, 14, 40):
        path.write_bytes(whole[:kept])
        refused(DataError, "the file ends inside it", count_records, str(path))
    for kept in (1, 8, 11):
        longer = whole + whole[:kept]
        for name, data in (("b.tfrecord", longer), ("b.tfrecord.gz", gzip.compress(longer))):
            (tmp_path / name).write_bytes(data)
            message = "record 3 damaged: the file ends inside it"
            refused(DataError, message, check_records, str(tmp_path / name))


@cases(
    ("weight", [1.0, 1.0]), ("area", [1.0, 2.0]), ("is_crowd", [0, 0]), ("difficult", [0, 0]),
    ("class/confidence", [0.5, 0.5]), ("class/label", []),
)  # fmt: skip
def test_columns_that_do_not_go_with_the_boxes_are_refused_by_record(tmp_path, *, column, values):
    fields = {"image/encoded": [image_bytes(3, 3)], "image/source_id": [b"17"], "image/filename": [b"a.png"]}
    fields |= {f"image/object/bbox/{side}": [0.5] for side in ("ymin", "xmin", "ymax", "xmax")}
    fields |= {"image/object/class/label": [1]}
    wrong = fields | {f"image/object/{column}": values}
    path = write_records(tmp_path / "a.tfrecord", [example(fields), example(wrong)])
    found = f"found {len(values)} in image/object/{column}"
    message = rf"a\.tfrecord, record 1: .*each of 1 boxes, {found}\).*image '17, a\.png'"
    refused(DataError, message, check_readable, path, decode_example)
