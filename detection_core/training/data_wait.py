"""How long updates wait for their batches, measured where they are drawn: inside the compiled function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


class DataWait:
    """Adds up the time between asking for a batch and having it.

    The time stands in a variable, so that measuring it waits for nothing; it is read when training reports.

    Args:
        clock: seconds, of the same pace as the device's own clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = tf.Variable(0.0, dtype=tf.float64, trainable=False, name="data_wait")
        self._clock = clock
        self._read = 0.0
        self._read_at = clock()

    def draw(self, iterator: Iterator[Any]) -> Any:
        """Return the next batch of an iterator; call it inside of a `tf.function`, as one would `next`."""
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            batch = next(iterator)
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            self._total.assign_add(tf.timestamp() - began)
        return batch

    def fraction(self) -> float:
        """Return which part of the time since the last call was spent waiting, from 0 to 1."""
        total, now = float(self._total.numpy()), self._clock()
        waited, passed = total - self._read, now - self._read_at
        self._read, self._read_at = total, now
        return min(1.0, max(0.0, waited / passed)) if passed > 0 else 0.0
