"""Run functions without TensorFlow's graph optimizers, and compile those that few batches are given to."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
import tf_keras

from detection_core.errors import ModelError

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


def results_of(function: Callable[..., Any], batches: Iterable[Any], purpose: str) -> Iterator[Any]:
    """Yield a compiled function's results for each batch, as NumPy arrays; ModelError without any batch."""
    empty = True
    for pixels in batches:
        empty = False
        yield tf.nest.map_structure(lambda value: value.numpy(), function(tf.convert_to_tensor(pixels)))
    if empty:
        raise no_batches(purpose)


def no_batches(purpose: str) -> ModelError:
    """Return the error of a purpose that needs at least one batch."""
    return ModelError(f"expected at least one batch to {purpose} on, found none; check the train split")
