"""Several sequences mixed by weight, reproducibly, and resumable at any index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

# Choices are drawn in blocks, so that those before an entry point are counted quickly.
_BLOCK = 4096


def _block(weights: Sequence[float], seed: int, number: tf.Tensor | int) -> tf.Tensor:
    """Return int64 [_BLOCK]: which sequence each of a block's elements comes from."""
    logits = tf.math.log(tf.constant([list(weights)], tf.float32))
    block_seed = tf.stack([tf.constant(seed, tf.int64), tf.cast(number, tf.int64)])
    return tf.random.stateless_categorical(logits, _BLOCK, block_seed)[0]


def taken_before(weights: Sequence[float], *, seed: int, start: int) -> list[int]:
    """Count how many of the first `start` elements of a mixture come from each sequence."""
    counts: np.ndarray = np.zeros(len(weights), np.int64)
    for number in range(-(-start // _BLOCK)):
        chosen = _block(weights, seed, number).numpy()[: start - number * _BLOCK]
        counts += np.bincount(chosen, minlength=len(weights))
    return counts.tolist()


def mixture(
    sequences: Sequence[Callable[[int], tf.data.Dataset]], weights: Sequence[float], *, seed: int, start: int
) -> tf.data.Dataset:
    """Draw each element from one of several sequences.

    Args:
        sequences: each takes a position and gives its elements from there on.
        weights: of the sequences, above 0; probabilities up to scale.
        seed: any integer.
        start: position in the mixture to begin at.
    """
    positions = taken_before(weights, seed=seed, start=start)
    parts = [sequence(position) for sequence, position in zip(sequences, positions, strict=True)]
    first, skipped = divmod(start, _BLOCK)
    blocks = tf.data.Dataset.range(first, tf.int64.max)
    choices = blocks.flat_map(
        lambda number: tf.data.Dataset.from_tensor_slices(_block(weights, seed, number))
    )
    return tf.data.Dataset.choose_from_datasets(parts, choices.skip(skipped), stop_on_empty_dataset=False)
