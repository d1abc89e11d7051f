"""What a training set is read as: sequences, mixtures, and what is left out."""

from collections import Counter
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.model_run import LEFT_OUT
from detection_core.data import left_out
from detection_core.data.decode import decode_example
from detection_core.data.left_out import find_undecodable, left_out_table
from detection_core.data.reader import Reader
from detection_core.data.sequence import (
    SequenceOptions,
    mixture,
    ordered_records,
    shuffled_epochs,
    shuffled_files,
    taken_before,
)
from detection_core.errors import DataError
from tests.support.cases import refused
from tests.support.record_files import example, numbered_example, write_records


@pytest.fixture
def paths(tmp_path):
    shards = {shard: [f"{shard}{i}".encode() for i in range(10)] for shard in "abcd"}
    return [write_records(tmp_path / f"{name}.tfrecord", records) for name, records in shards.items()]


def _take(dataset, count):
    return [(e.element, tuple(e.seed.tolist())) for e in dataset.take(count).as_numpy_iterator()]


def test_files_are_read_in_blocks_and_epochs_end(paths):
    options = SequenceOptions(num_readers=2, read_block_length=3)
    found = list(ordered_records(paths, options).as_numpy_iterator())
    assert found[:7] == [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2", b"a3"] and len(set(found)) == 40
    options = SequenceOptions(shuffle_buffer_size=4)
    numbers = tf.data.Dataset.range(100)
    found = [int(e) for e, _ in _take(shuffled_epochs(lambda _: numbers, options, seed=1), 100)]
    assert sorted(found) == list(range(100)) and found != sorted(found)
    assert all(number < place + 4 for place, number in enumerate(found))
    options = SequenceOptions(num_epochs=3, shuffle=False)
    numbers = tf.data.Dataset.range(5)
    found = _take(shuffled_epochs(lambda _: numbers, options, seed=1, first_epoch=1), 99)
    assert [int(e) for e, _ in found] == [0, 1, 2, 3, 4] * 2


def test_every_element_has_a_seed_of_its_own_that_does_not_depend_on_the_global_one(paths):
    options = SequenceOptions(shuffle_buffer_size=8)
    found = _take(shuffled_epochs(shuffled_files(paths, options), options, seed=4), 120)
    assert max(Counter(seed for _, seed in found).values()) == 1
    later = _take(shuffled_epochs(shuffled_files(paths, options), options, seed=4, first_epoch=2), 40)
    assert later == found[80:]
    options = SequenceOptions(shuffle_buffer_size=1, num_readers=1)
    found = [e for e, _ in _take(shuffled_epochs(shuffled_files(paths, options), options, seed=0), 400)]
    orders = {tuple(e[:1] for e in found[i : i + 40 : 10]) for i in range(0, 400, 40)}
    assert len(orders) > 4 and all(sorted(order) == [b"a", b"b", b"c", b"d"] for order in orders)
    options = SequenceOptions(shuffle_buffer_size=8)
    orders = []
    try:
        for global_seed in (None, 1, 2):
            tf.random.set_seed(global_seed)
            orders.append(_take(shuffled_epochs(shuffled_files(paths, options), options, seed=4), 60))
    finally:
        tf.random.set_seed(None)
    assert orders[0] == orders[1] == orders[2]


WEIGHTS = (1.0, 2.0, 5.0)


def _numbers(part):
    return lambda start: tf.data.Dataset.range(start, 1 << 40).map(lambda i: i * 10 + part)


def _mixture_take(start, count):
    dataset = mixture([_numbers(part) for part in range(3)], WEIGHTS, seed=6, start=start)
    return [int(i) for i in dataset.take(count)]


def test_a_mixture_is_entered_anywhere():
    found = np.array(_mixture_take(0, 4000))
    counts = np.bincount(found % 10)
    np.testing.assert_allclose(counts / 4000, np.array(WEIGHTS) / 8, atol=0.03)
    for part in range(3):
        assert (found[found % 10 == part] // 10 == np.arange(counts[part])).all()
    whole = _mixture_take(0, 9000)
    for start in (1, 4095, 4096, 8200):
        assert _mixture_take(start, 50) == whole[start : start + 50]
    found = np.array(_mixture_take(0, 5000))
    assert taken_before(WEIGHTS, seed=6, start=5000) == np.bincount(found % 10).tolist()
    assert taken_before(WEIGHTS, seed=6, start=0) == [0, 0, 0]


BAD = example({"image/encoded": [b"nothing"], "image/source_id": [b"17"], "image/filename": [b"a.png"]})


def test_what_does_not_decode_is_named_kept_and_left_out_by_a_reader(tmp_path):
    whole = [numbered_example(n) for n in range(6)]
    first = write_records(tmp_path / "a.tfrecord", [*whole[:3], BAD])
    damaged = [first, write_records(tmp_path / "b.tfrecord", [b"\xff" * 50, *whole[3:]])]
    found = find_undecodable(damaged, decode_example)
    named = [(damaged[0], 3, "17, a.png"), (damaged[1], 0, "without a name")]
    assert [(record.path, record.index, record.image) for record in found] == named
    assert found[1].reason == "it is no tf.Example" and "nothing" not in found[0].reason
    assert LEFT_OUT.read(str(tmp_path)) == [] and left_out_table(str(tmp_path)) == {}
    LEFT_OUT.write(str(tmp_path), found)
    assert LEFT_OUT.read(str(tmp_path)) == found
    assert left_out_table(str(tmp_path)) == {LEFT_OUT.name: (tmp_path / LEFT_OUT.name).read_text()}
    records = tf.data.Dataset.from_tensors(b"a")
    assert left_out.without(records, ()) is records
    # These say nothing of a record.
    exhausted = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating a tensor")
    for fault in (exhausted, tf.errors.UnknownError(None, None, "OSError: [Errno 24] Too many open files")):
        refused(type(fault), "", find_undecodable, damaged, Mock(side_effect=fault))
    found = find_undecodable(damaged, decode_example)
    reader = Reader(paths=tuple(damaged)).leaving_out(found)
    assert reader.examples() == 6
    assert sorted(truth.source_id for _, truth in reader.truth()) == [str(n) for n in range(6)]
    first_epoch = reader.shuffled_records(seed=0, first_epoch=0).take(12)
    names = [reader.decode(seeded.element).sample.source_id.numpy() for seeded in first_epoch]
    assert sorted(names) == sorted([str(n).encode() for n in range(6)] * 2)
    refused(DataError, r"record 3: .*image '17, a\.png'", list, Reader(paths=tuple(damaged)).truth())
