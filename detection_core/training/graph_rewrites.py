"""Which of TensorFlow's rewrites of graphs a training step goes without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from detection_core.training.precision import Precision

_DISABLED = "disable_meta_optimizer"


def gains_nothing_from_rewrites(precision: Precision) -> bool:
    """Tell whether a step, in the present strategy, is as fast as it is written.

    On processors, in float32, the rewrites make no step faster or smaller (`benchmarks/training_step.py`
    compares), and take up to half of the first. Not so elsewhere: GPUs want another layout, several replicas
    want their collectives joined, and products of 16 bits want their neighbours fused.
    """
    alone = tf.distribute.get_strategy().num_replicas_in_sync == 1
    return alone and precision is Precision.FLOAT32 and not tf.config.list_logical_devices("GPU")


@contextlib.contextmanager
def without_rewrites() -> Iterator[None]:
    """Run functions as they are written, without TensorFlow's graph optimizers (Grappler).

    What a function does at its first call inside is kept for the further calls inside; a call outside has the
    optimizers look at it again. Operations are placed, and lowered to the processor's kernels, all the same.
    """
    before = tf.config.optimizer.get_experimental_options().get(_DISABLED, False)
    tf.config.optimizer.set_experimental_options({_DISABLED: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({_DISABLED: before})
