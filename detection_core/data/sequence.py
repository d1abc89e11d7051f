"""The order in which records are read: shuffled, endless, reproducible, and resumable at any index.

Every epoch is shuffled from (seed, epoch) alone. So the sequence from record p on costs no more than
skipping the records of one epoch, undecoded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from detection_core.data.left_out import without
from detection_core.data.records import fetched_ahead, record_reader
from detection_core.storage.shard_cache import RecordFile, uri_of

# Any number but 0, which tf.data takes for "none".
_GRAPH_SEED = 1
# Separates the streams of consecutive seeds: epoch e of seed s must differ from epoch e + 1 of seed s - 1.
_SEED_STRIDE = 1_000_003


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceOptions:
    """How records are read for training.

    Attributes:
        shuffle: draw a new order every epoch.
        shuffle_buffer_size: records among which the next one is drawn.
        num_readers: files that are read in turns.
        read_block_length: records taken from a file at its turn.
        num_epochs: 0: without end.
        sample_1_of_n_examples: take each n-th record only.
        left_out: digests of records that are not read, see `detection_core.data.left_out`.
    """

    shuffle: bool = True
    shuffle_buffer_size: int = 2048
    num_readers: int = 64
    read_block_length: int = 32
    num_epochs: int = 0
    sample_1_of_n_examples: int = 1
    left_out: tuple[int, ...] = ()


class SeededElement(NamedTuple):
    """An element of the training sequence.

    Attributes:
        element: the record, or the sample decoded from it.
        seed: int64 [2], different for each (epoch, index in it); for stateless random operations.
    """

    element: tf.Tensor
    seed: tf.Tensor


def ordered_records(paths: Sequence[RecordFile], options: SequenceOptions) -> tf.data.Dataset:
    """Return all records once, string [], in an order that depends on the files and options alone."""
    return _interleaved(tf.constant([uri_of(path) for path in paths]), paths, options)


def _interleaved(
    paths: tf.Tensor, record_files: Sequence[RecordFile], options: SequenceOptions
) -> tf.data.Dataset:
    readers = max(1, min(options.num_readers, len(record_files)))
    records = fetched_ahead(tf.data.Dataset.from_tensor_slices(paths), record_files).interleave(
        record_reader(record_files), cycle_length=readers, block_length=max(1, options.read_block_length)
    )
    records, every = without(records, options.left_out), options.sample_1_of_n_examples
    return records.shard(every, 0) if every > 1 else records


def shuffled_epochs(
    epoch_elements: Callable[[tf.Tensor], tf.data.Dataset],
    options: SequenceOptions,
    *,
    seed: int,
    first_epoch: int = 0,
) -> tf.data.Dataset:
    """Chain epochs, each shuffled from (seed, epoch).

    Args:
        epoch_elements: int64 [2] seed of an epoch -> its elements before shuffling.
        options: whether and how to shuffle, how many epochs.
        seed: any integer.
        first_epoch: where to begin.

    Returns:
        `SeededElement`s.
    """

    def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        # Set the seed of this function's graph: shuffle would otherwise depend on tf.random.set_seed.
        tf.compat.v1.set_random_seed(_GRAPH_SEED)
        stream = tf.constant(seed * _SEED_STRIDE, tf.int64) + epoch
        elements = epoch_elements(tf.stack([stream, -1]))
        if options.shuffle:
            buffer = max(1, options.shuffle_buffer_size)
            elements = elements.shuffle(buffer, seed=stream, reshuffle_each_iteration=False)
        return elements.enumerate().map(lambda i, element: SeededElement(element, tf.stack([stream, i])))

    last = options.num_epochs or tf.int64.max
    return tf.data.Dataset.range(first_epoch, last).flat_map(one_epoch)


def shuffled_files(
    paths: Sequence[RecordFile], options: SequenceOptions
) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """Return what `shuffled_epochs` takes for record files: each epoch reads them in another order."""
    all_paths = tf.constant([uri_of(path) for path in paths])

    def epoch_elements(epoch_seed: tf.Tensor) -> tf.data.Dataset:
        order = all_paths
        if options.shuffle and len(paths) > 1:
            order = tf.random.experimental.stateless_shuffle(all_paths, seed=epoch_seed)
        return _interleaved(order, paths, options)

    return epoch_elements
