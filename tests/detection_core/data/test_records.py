"""Records and label maps: files, their order, and work ahead."""

import gzip
import io
import queue
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.data import records
from detection_core.data.batch import LabelTargets, merge_equal_boxes
from detection_core.data.decode import decode_example
from detection_core.data.label_map import LabelMap, LabelMapItem, format_label_map, label_map_from_names
from detection_core.data.record_format import count_local_records, masked_checksum, write_record
from detection_core.data.records import (
    check_readable,
    check_records,
    count_records,
    done_ahead,
    expand_patterns,
)
from detection_core.data.sequence import SeededElement, element_at, with_following
from detection_core.errors import DataError
from detection_core.ops.objects import new_truth
from tests.support.cases import cases, refused
from tests.support.record_files import example, image_bytes, write_records
from tests.support.storage_faults import few_descriptors

RECORDS = [b"one", b"", b"three" * 100]


@cases("a.tfrecord", "a.tfrecord.gz")
def test_records_are_counted_and_read_compressed_or_not(tmp_path, *, name):
    path = write_records(tmp_path / name, RECORDS)
    assert count_records(path) == check_records(path) == 3
    assert list(records.read_records(tf.constant(path)).as_numpy_iterator()) == RECORDS


def test_renamed_missing_and_damaged_files_are_told(tmp_path):
    assert count_records(write_records(tmp_path / "a.tfrecord", [])) == 0
    renamed = Path(write_records(tmp_path / "a.tfrecord.gz", RECORDS)).rename(tmp_path / "a.tfrecord")
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
    assert expand_patterns([paths[0], str(tmp_path / "a-*"), str(tmp_path / "*-1")]) == paths
    refused(DataError, r"^reader: .*no pattern; set input_path", expand_patterns, [], where="reader")
    missing = r"none for '.*missing-\?'; correct input_path"
    refused(DataError, missing, expand_patterns, [f"{tmp_path}/missing-?"])
    for folder in ("a[1]", "a1"):
        (tmp_path / folder).mkdir()
        write_records(tmp_path / folder / "x.tfrecord", RECORDS)
    literal, matched = f"{tmp_path}/a[1]/x.tfrecord", f"{tmp_path}/a1/x.tfrecord"
    assert expand_patterns([literal]) == [literal] and expand_patterns([f"{tmp_path}/a[1]/*"]) == [matched]


def test_records_that_do_not_decode_are_named(tmp_path):
    def write(*more):
        sound = example({"image/encoded": [image_bytes(3, 3)]})
        return write_records(tmp_path / "a.tfrecord", [sound, *more])

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


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "a.tfrecord"
    return Path(write_records(path, [b"one", b"", b"three" * 20])).read_bytes()


@settings(deadline=None, max_examples=60)
@given(kept=st.integers(0, 200), packed=st.booleans())
def test_only_the_ends_of_records_pass(stored, tmp_path_factory, kept, packed):
    cut = stored[:kept]
    path = tmp_path_factory.getbasetemp() / f"cut.tfrecord{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(cut) if packed else cut)
    ends = {0: 0, 19: 1, 35: 2, 151: 3}
    if len(cut) in ends:
        assert count_local_records(str(path)) == ends[len(cut)]
    else:
        refused(DataError, r"found record [012] damaged", count_local_records, str(path))


def test_packed_files_are_damaged_or_cannot_be_opened(stored, tmp_path):
    (tmp_path / "a.tfrecord.gz").write_bytes(gzip.compress(stored * 3)[:-20])
    with pytest.raises(DataError, match=r"a\.tfrecord\.gz, record \d: .*damaged"):
        count_local_records(str(tmp_path / "a.tfrecord.gz"))
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(gzip.compress(stored))
    with few_descriptors(0), pytest.raises(OSError, match="Too many open files"):
        count_local_records(str(path))


WRITTEN = [b"", b"a", b"\0" * 1000, bytes(range(256)) * 300]


def test_a_file_is_what_tensorflow_writes(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in WRITTEN:
            writer.write(record)
    ours = io.BytesIO()
    for record in WRITTEN:
        write_record(ours, record)
    assert ours.getvalue() == (tmp_path / "theirs").read_bytes()


@cases(1, 10, 1000)
def test_results_come_in_order_and_no_more_wait_than_the_budget_allows(*, budget):
    costs = [3, 1, 20, 1, 1, 7, 2, 50, 1, 1] * 3
    lock, waiting, most, done = threading.Lock(), 0, 0, []

    def work(item):
        nonlocal waiting, most
        with lock:
            waiting += item[1]
            most = max(most, waiting)
        time.sleep(0.001)
        return item[0]

    for index in done_ahead(enumerate(costs), work, lambda item: item[1], budget=budget, threads=3):
        done.append(index)
        with lock:
            waiting -= costs[index]
    assert done == list(range(len(costs)))
    # One that is more than the whole budget goes alone, while the reader holds the one before.
    assert most <= max(budget, *costs) + max(costs)


def test_a_failure_comes_at_its_turn_and_no_more_is_read_than_there_is_work_for():
    def work(item):
        if item == 3:
            raise KeyError(item)
        return item

    def cost(item):
        if item == 5:
            raise ValueError(item)
        return 1

    found, worked = [], []
    refused(KeyError, "", list, done_ahead(range(9), work, lambda _: 1, budget=9, threads=2))
    with pytest.raises(ValueError, match="5"):
        for item in done_ahead(range(9), lambda n: worked.append(n) or str(n), cost, budget=9, threads=2):
            found.append(item)
    # An image whose cost is refused, such as a decompression bomb, is not decoded.
    assert found == ["0", "1", "2", "3", "4"] and sorted(worked) == [0, 1, 2, 3, 4]
    read = []
    stream = done_ahead((read.append(n) or n for n in range(1000)), str, lambda _: 1, budget=100, threads=2)
    assert next(stream) == "0" and len(read) <= 5
    stream.close()


def test_what_was_begun_ahead_is_computed_in_every_run_of_a_process():
    """TensorFlow counts what was computed, and names of exported functions have the count."""
    for _ in range(20):
        worked = queue.SimpleQueue()
        stream = done_ahead(range(9), worked.put, lambda _: 1, budget=9, threads=2)
        next(stream), next(stream)
        stream.close()
        assert worked.qsize() == 4


# As in COCO: ids with gaps, codes as names.
def _map(*items):
    """Make a label map of (id, name, display name), of which the last may be left out."""
    return LabelMap(items=tuple(LabelMapItem(**dict(zip(FIELDS, i, strict=False))) for i in items))


FIELDS = ("id", "name", "display_name")
GAPS = _map((5, "/m/05", "truck"), (1, "/m/01", "person"), (2, "/m/02"))


def test_items_of_one_id_and_texts_in_two_places():
    assert _map((2, "/m/cat", "Cat"), (2, "kitten"), (1, "", "Dog")).texts_by_id == {1: "Dog", 2: "/m/cat"}
    merged = _map((1, "car"), (1, "van"))
    assert (merged.num_classes, merged.names, merged.classes) == (1, ["car"], (0,))
    assert merged.ids_by_text == {"car": 1, "van": 1}
    assert _map((1, "a", "b"), (2, "b")).ids_by_text == {"a": 1, "b": 2}
    assert _map((1, "b"), (2, "a", "b")).ids_by_text == {"a": 2, "b": 2}
    hats = (1, "/m/01", "Hat"), (2, "/m/02", "Hat"), (3, "", "Hat"), (4, "", "Hat")
    names = _map(*hats, (5, "cat"), (7, "6")).names
    assert names == ["Hat (/m/01)", "Hat (/m/02)", "Hat (id 3)", "Hat (id 4)", "cat", "6 (id 6)", "6 (id 7)"]


def test_classes_are_ids_less_one_gaps_count_and_contradictions_are_refused():
    assert GAPS.num_classes == 5 and GAPS.names == ["person", "/m/02", "3", "4", "truck"]
    assert GAPS.classes == (0, 1, 4) and [item.id for item in GAPS.items] == [1, 2, 5]
    assert GAPS.ids_by_text == {"/m/01": 1, "person": 1, "/m/02": 2, "/m/05": 5, "truck": 5}
    label_map = label_map_from_names(["a", "b"])
    assert [(item.id, item.name) for item in label_map.items] == [(1, "a"), (2, "b")]
    assert _map((0, "background"), (1, "a")) == label_map_from_names(["a"]) and _map().num_classes == 0
    text = format_label_map(_map((2, "a b", "A")))
    assert text == 'item {\n  name: "a b"\n  id: 2\n  display_name: "A"\n}\n'
    refused(DataError, "id 0 is kept for the background", _map, (0, "cat"))
    refused(DataError, "found id -2", _map, (-2, "cat"))
    refused(DataError, "'a' stands for id 1 and id 2", _map, (1, "a"), (2, "a"))
    refused(DataError, "id 1 has no name", _map, (1, ""))


def _windows(count, following):
    elements = tf.data.Dataset.range(count).map(
        lambda i: SeededElement((tf.fill([i + 1, 2], i), tf.strings.as_string(i)), tf.stack([i, i]))
    )
    found = []
    for window in with_following(elements, following):
        numbers = []
        for i in range(int(window.cardinality())):
            (image, name), seed = element_at(window, tf.constant(i, tf.int64))
            number = int(seed[0])
            assert image.shape == (number + 1, 2) and int(name) == number
            numbers.append(number)
        found.append(numbers)
    return found


def test_each_element_has_those_that_follow_and_no_more_are_read():
    assert _windows(5, 2) == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4], [4]]
    assert _windows(2, 9) == [[0, 1], [1]]
    read = []

    def seen(i):
        read.append(int(i))
        return i

    elements = tf.data.Dataset.range(1000).map(lambda i: tf.py_function(seen, [i], tf.int64))
    seeded = elements.map(lambda i: SeededElement(i, tf.stack([i, i])))
    # What tf.data reads ahead is no part of a window.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    iterator = iter(with_following(seeded, 7).with_options(options))
    for _ in range(3):
        next(iterator)
    assert len(read) <= 3 + 7 + 1


A, B = [0.1, 0.1, 0.5, 0.5], [0.2, 0.1, 0.5, 0.5]


def _truth(boxes=(A, B, A, A), classes=(2, 0, 1, 2), confidences=(0.5, 1.0, -1.0, 0.25)):
    count = len(boxes)
    fields = {
        "confidences": tf.constant(confidences, tf.float32, [count]), "keypoints": tf.zeros([count, 2, 2]),
        "area": tf.range(count, dtype=tf.float32), "class_scores": tf.fill([count, 3], 0.5),
        "keypoint_weights": tf.constant([[1.0, 0.0]] * count, shape=[count, 2]),
    }  # fmt: skip
    classes = tf.constant(classes, tf.int32, [count])
    return new_truth(tf.constant(boxes, tf.float32, [count, 4]), classes, **fields)


def test_objects_with_one_box_become_one_and_scores_and_keypoints_count_as_they_shall():
    found = merge_equal_boxes(_truth(), 3)
    np.testing.assert_allclose(found.boxes, [A, B])
    np.testing.assert_allclose(found.class_scores, [[0.0, -1.0, 0.5], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(found.confidences, [1.0, 1.0])
    np.testing.assert_array_equal(found.area, [0.0, 1.0])
    found = merge_equal_boxes(_truth((), (), ()), 3)
    assert found.class_scores.shape == (0, 3) and found.boxes.shape == (0, 4)
    spec = tf.nest.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), _truth())
    targets = LabelTargets(classes=5, merge_equal_boxes=True)
    traced = tf.function(targets, input_signature=[spec]).get_concrete_function()
    assert traced.structured_outputs.class_scores.shape.as_list() == [None, 5]
    assert LabelTargets(classes=3, use_scores=True)(_truth()).class_scores.shape == (4, 3)
    left = LabelTargets(classes=3)(_truth())
    assert left.class_scores.shape == (4, 0)
    np.testing.assert_array_equal(left.classes, [2, 0, 1, 2])
    found = LabelTargets(classes=3, keypoint_weights=(0.5, 2.0))(_truth())
    np.testing.assert_allclose(found.keypoint_weights, [[0.5, 0.0]] * 4)
