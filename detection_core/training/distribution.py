"""How training spreads over the devices of this machine."""

from __future__ import annotations

import tensorflow as tf


def choose_strategy() -> tf.distribute.Strategy:
    """Return a mirrored strategy where there are several GPUs, TensorFlow's default on one device or none.

    Build the model and the optimizer inside its `scope()`; the batch is shared out among the replicas.
    """
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()
