from collections import Counter

import pytest
import tensorflow as tf

from detection_core.data.sequence import SequenceOptions, ordered_records, shuffled_epochs, shuffled_files
from tests.support.record_files import write_records


@pytest.fixture
def paths(tmp_path):
    shards = {shard: [f"{shard}{i}".encode() for i in range(10)] for shard in "abcd"}
    return [write_records(tmp_path / f"{name}.tfrecord", records) for name, records in shards.items()]


def _take(dataset, count):
    return [(e.element, tuple(e.seed.tolist())) for e in dataset.take(count).as_numpy_iterator()]


def test_files_are_read_in_blocks_and_epochs_end(paths):
    options = SequenceOptions(num_readers=2, read_block_length=3)
    found = list(ordered_records(paths, options).as_numpy_iterator())
    assert found[:7] == [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2", b"a3"]
    assert len(set(found)) == 40
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
    assert len(orders) > 4
    assert all(sorted(order) == [b"a", b"b", b"c", b"d"] for order in orders)
    options = SequenceOptions(shuffle_buffer_size=8)
    orders = []
    try:
        for global_seed in (None, 1, 2):
            tf.random.set_seed(global_seed)
            orders.append(_take(shuffled_epochs(shuffled_files(paths, options), options, seed=4), 60))
    finally:
        tf.random.set_seed(None)
    assert orders[0] == orders[1] == orders[2]
