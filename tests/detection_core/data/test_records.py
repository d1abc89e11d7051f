"""TFRecord files."""

import gzip
import itertools
import struct
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from detection_core.data.decode import decode_example
from detection_core.data.record_writer import masked_checksum
from detection_core.data.records import (
    check_readable,
    check_records,
    count_records,
    expand_patterns,
    naming_bad_records,
    read_records,
)
from detection_core.errors import DataError
from tests.support.cases import cases
from tests.support.record_files import example, image_bytes, write_records

RECORDS = [b"one", b"", b"three" * 100]


@cases("a.tfrecord", "a.tfrecord.gz")
def test_records_are_counted_and_read_compressed_or_not(tmp_path, *, name):
    path = write_records(tmp_path / name, RECORDS)
    assert count_records(path) == check_records(path) == 3
    assert list(read_records(tf.constant(path)).as_numpy_iterator()) == RECORDS


def test_empty_renamed_and_missing_files(tmp_path):
    assert count_records(write_records(tmp_path / "a.tfrecord", [])) == 0
    path = write_records(tmp_path / "a.tfrecord.gz", RECORDS)
    renamed = Path(path).rename(tmp_path / "a.tfrecord")
    with pytest.raises(DataError, match=r"must end in \.gz"):
        count_records(str(renamed))
    for path in (str(tmp_path / "none.tfrecord"), "http://127.0.0.1:9/x.tfrecord"):
        with pytest.raises(DataError, match=r"expected a (TFRecord file, found none|local path or one of)"):
            check_records(path)


def test_patterns_keep_their_order_and_name_each_file_once(tmp_path):
    paths = [write_records(tmp_path / name, RECORDS) for name in ("b-1", "a-1", "a-2")]
    found = expand_patterns([paths[0], str(tmp_path / "a-*"), str(tmp_path / "*-1")])
    assert found == [paths[0], paths[1], paths[2]]
    with pytest.raises(DataError, match=r"^reader: .*no pattern; set input_path"):
        expand_patterns([], where="reader")
    with pytest.raises(DataError, match=r"none for '.*missing-\?'; correct input_path"):
        expand_patterns([str(tmp_path / "missing-?")], where="reader")
    for folder in ("a[1]", "a1"):
        (tmp_path / folder).mkdir()
        write_records(tmp_path / folder / "x.tfrecord", RECORDS)
    literal, matched = f"{tmp_path}/a[1]/x.tfrecord", f"{tmp_path}/a1/x.tfrecord"
    assert expand_patterns([literal]) == [literal]
    assert expand_patterns([f"{tmp_path}/a[1]/*"]) == [matched]


def test_flipped_bits_and_lengths_beyond_memory_are_found(tmp_path):
    path = Path(write_records(tmp_path / "a.tfrecord", RECORDS))
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    assert count_records(str(path)) == 3
    with pytest.raises(DataError, match=r"a\.tfrecord, record 2: .*record 2 damaged"):
        check_records(str(path))
    length = struct.pack("<Q", 2**40)
    header = length + struct.pack("<I", masked_checksum(length)) + b"x" * 100
    for name, data in (("a.tfrecord", header), ("a.tfrecord.gz", gzip.compress(header))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=f"{name}, record 0: .*1,099,511,627,776 bytes, of at most"):
            check_records(str(tmp_path / name))


@cases(5, 14, 40)
def test_a_cut_file_is_found_without_reading_its_data(tmp_path, *, kept):
    path = Path(write_records(tmp_path / "a.tfrecord", RECORDS))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match="the file ends inside it"):
        count_records(str(path))


def test_records_that_do_not_decode_are_named(tmp_path):
    good = example({"image/encoded": [image_bytes(3, 3)]})
    path = write_records(tmp_path / "a.tfrecord", [good, example({"image/encoded": [b"nothing"]})])
    with pytest.raises(DataError, match=r"a\.tfrecord, record 1: .*does not decode"):
        check_readable(path, decode_example)
    noise = np.random.default_rng(1).integers(0, 256, 300, dtype=np.uint8).tobytes()
    path = write_records(tmp_path / "a.tfrecord", [example({"image/encoded": [image_bytes(3, 3)]}), noise])
    with pytest.raises(DataError, match=r"record 1: .*it is no tf\.Example"):
        check_readable(path, decode_example)
    with pytest.raises(DataError, match="record 1: "), naming_bad_records([path], decode_example):
        noise.decode()
    path = write_records(tmp_path / "a.tfrecord", [example({"image/encoded": [image_bytes(3, 3)]})])
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="of the model"),
        naming_bad_records([path], decode_example),
    ):
        raise tf.errors.InvalidArgumentError(None, None, "of the model")


@cases(*itertools.product((1, 8, 11), ("", ".gz")))
def test_a_file_that_is_cut_inside_a_header_does_not_pass_for_a_shorter_one(tmp_path, *, kept, suffix):
    whole = Path(write_records(tmp_path / "a.tfrecord", RECORDS)).read_bytes()
    path = tmp_path / f"b.tfrecord{suffix}"
    path.write_bytes(gzip.compress(whole + whole[:kept]) if suffix else whole + whole[:kept])
    with pytest.raises(DataError, match="record 3 damaged: the file ends inside it"):
        check_records(str(path))


COLUMNS = {
    "image/object/weight": [1.0, 1.0],
    "image/object/area": [1.0, 2.0],
    "image/object/is_crowd": [0, 0],
    "image/object/difficult": [0, 0],
    "image/object/class/confidence": [0.5, 0.5],
    "image/object/class/label": [],
}


@cases(*COLUMNS)
def test_columns_that_do_not_go_with_the_boxes_are_refused_by_record(tmp_path, *, column):
    fields = {
        "image/encoded": [image_bytes(3, 3)],
        "image/source_id": [b"17"],
        "image/filename": [b"a.png"],
        "image/object/class/label": [1],
        **{f"image/object/bbox/{side}": [0.5] for side in ("ymin", "xmin", "ymax", "xmax")},
    }
    path = write_records(
        tmp_path / "a.tfrecord", [example(fields), example(fields | {column: COLUMNS[column]})]
    )
    found = len(COLUMNS[column])
    message = rf"a\.tfrecord, record 1: .*each of 1 boxes, found {found} in {column}\).*image '17, a\.png'"
    with pytest.raises(DataError, match=message):
        check_readable(path, decode_example)
