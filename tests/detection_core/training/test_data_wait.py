"""What part of a training waits for its batches."""

import time

import tensorflow as tf

from detection_core.training.data_wait import DataWait


def batches(seconds):
    """Batches that take a while each, none of which is made before it is asked for."""

    def slow(index):
        time.sleep(seconds)
        return index

    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    made = tf.data.Dataset.range(1000).map(lambda i: tf.numpy_function(slow, [i], tf.int64))
    return made.with_options(options)


class Clock:
    """Passes when it is told to, so that a loaded machine changes nothing."""

    now = 0.0

    def __call__(self):
        return self.now


def test_the_wait_is_the_readers_part_of_the_time():
    for strategy in (tf.distribute.get_strategy(), tf.distribute.OneDeviceStrategy("/cpu:0")):
        with strategy.scope():
            wait = DataWait(clock := Clock())
            iterator = iter(strategy.experimental_distribute_dataset(batches(0.02)))
            step = tf.function(wait.draw)
            step(iterator)
            clock.now += 10
            wait.fraction()
            for _ in range(10):
                step(iterator)
        clock.now += 10
        # A loaded machine draws so late that most batches are ready.
        assert 0.001 <= wait.fraction() < 0.5
        clock.now += 10
        assert wait.fraction() == 0.0, "what was read is not counted again"
        assert wait.fraction() == 0.0, "no time passed"


def test_batches_that_are_ready_are_not_waited_for():
    wait = DataWait(clock := Clock())
    iterator = iter(tf.data.Dataset.range(1000).cache().prefetch(100))
    step = tf.function(wait.draw)
    values = [int(step(iterator))]
    time.sleep(0.05)
    wait.fraction()
    for _ in range(5):
        values.append(int(step(iterator)))
        time.sleep(0.1)
    clock.now += 0.5
    assert values == list(range(6))
    assert wait.fraction() < 0.5, "what an update takes is no wait"
