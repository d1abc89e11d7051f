"""Turn off Grappler's graph rewrites for training steps that gain nothing from them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from detection_core.training.precision import Precision

_DISABLED = "disable_meta_optimizer"


def gains_nothing_from_rewrites(precision: Precision) -> bool:
    """Return whether a step in the current strategy is as fast without graph rewrites.

    On CPUs in float32, no step becomes faster or smaller, and rewriting takes up to half of the first step
    (see `benchmarks/training_step.py`). They help elsewhere. GPUs want another layout, several
    replicas want joined collectives, and 16-bit products want fusion.
    """
    alone = tf.distribute.get_strategy().num_replicas_in_sync == 1
    return alone and precision is Precision.FLOAT32 and not tf.config.list_logical_devices("GPU")


@contextlib.contextmanager
def without_rewrites() -> Iterator[None]:
    """Run functions without TensorFlow's graph optimizers (Grappler).

    A function's first call inside is reused by further calls inside; a call outside is optimized again.
    Placement and lowering to CPU kernels still take place.
    """
    before = tf.config.optimizer.get_experimental_options().get(_DISABLED, False)
    tf.config.optimizer.set_experimental_options({_DISABLED: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({_DISABLED: before})
