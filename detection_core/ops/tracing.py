"""What tracing a function costs, where it is called a few times only."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tf_keras

_DISABLED = "disable_meta_optimizer"


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


def compile_for_batches(network: tf_keras.Model, function: Callable[[tf.Tensor], Any]) -> Callable[..., Any]:
    """Compile a function of a network's input, float32 [B, H, W, 3], that runs on a few batches.

    It is traced once for all batch sizes, and not rewritten, which would take longer than some batches.
    """
    specs = [tf.TensorSpec(given.shape, given.dtype) for given in network.inputs]
    return without_rewrites()(tf.function(function, input_signature=specs, autograph=False))
