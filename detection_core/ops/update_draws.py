"""Random numbers that depend only on the seed, the update and the name of the drawing layer.

So a resumed training run draws the same numbers without any stored generator state.
"""

import collections
import contextlib
import contextvars
import zlib
from collections.abc import Iterator

import tensorflow as tf

_TAG = zlib.crc32(b"updates")  # separates these draws from those of the examples, which use the same seed


class _Draws:
    """The draws of one forward pass: an int64 [2] seed, and counts per name for repeated calls."""

    def __init__(self, seed: tf.Tensor) -> None:
        self.seed = seed
        self.counts: collections.Counter[str] = collections.Counter()


_current: contextvars.ContextVar[_Draws | None] = contextvars.ContextVar("update_draws", default=None)


@contextlib.contextmanager
def update_draws(seed: int, *position: tf.Tensor | int) -> Iterator[None]:
    """Set the seed and position for draws inside a `with` block.

    The position is integers []: the update, the part of its batch, the replica.
    """
    combined = tf.constant([seed, _TAG], tf.int64)
    for number in position:
        combined = tf.random.fold_in(combined, tf.cast(number, tf.int64))
    token = _current.set(_Draws(combined))
    try:
        yield
    finally:
        _current.reset(token)


def draw_seed(name: str) -> tf.Tensor | None:
    """Return the seed of a name's next draw, int64 [2]; None outside of `update_draws`."""
    draws = _current.get()
    if draws is None:
        return None
    number = draws.counts[name]
    draws.counts[name] += 1
    return tf.random.fold_in(draws.seed, tf.constant(zlib.crc32(f"{name}/{number}".encode()), tf.int64))


def draw_uniform(name: str, shape: tf.Tensor) -> tf.Tensor:
    """Draw float32 numbers from [0, 1) for the layer `name`; `shape` is int32 [N]."""
    seed = draw_seed(name)
    return tf.random.uniform(shape) if seed is None else tf.random.stateless_uniform(shape, seed)
