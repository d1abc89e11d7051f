"""What part of a training waits for its batches."""

import time

import pytest
import tensorflow as tf

from detection_core.training.data_wait import DataWait
from tests.support.cases import cases


def batches(seconds):
    """Batches that take a while each, none of which is made before it is asked for."""

    def slow(index):
        time.sleep(seconds)
        return index

    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    made = tf.data.Dataset.range(1000).map(lambda i: tf.numpy_function(slow, [i], tf.int64))
    return made.with_options(options)


@cases((0.05, 0.0, 0.95), (0.03, 0.03, 0.5))
def test_the_wait_is_the_readers_part_of_the_time(*, reading, computing, expected):
    wait = DataWait()
    iterator = iter(batches(reading))
    step = tf.function(wait.draw)
    step(iterator)
    wait.fraction()
    for _ in range(10):
        step(iterator)
        time.sleep(computing)
    assert wait.fraction() == pytest.approx(expected, abs=0.2)
    assert wait.fraction() < 0.05, "what was read is not counted again"


def test_batches_that_are_ready_are_not_waited_for():
    wait = DataWait()
    iterator = iter(tf.data.Dataset.range(1000).cache().prefetch(100))
    step = tf.function(wait.draw)
    values = [int(step(iterator))]
    time.sleep(0.05)
    wait.fraction()
    for _ in range(5):
        values.append(int(step(iterator)))
        time.sleep(0.05)
    assert values == list(range(6))
    assert wait.fraction() < 0.1


def test_batches_of_several_devices_are_waited_for_too():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        wait = DataWait()
        iterator = iter(strategy.experimental_distribute_dataset(batches(0.05)))
        step = tf.function(wait.draw)
        step(iterator)
        wait.fraction()
        for _ in range(10):
            step(iterator)
        assert wait.fraction() > 0.5
