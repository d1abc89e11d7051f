"""The order of training records: shuffled, endless, reproducible, and resumable at any index.

Every epoch is shuffled from (seed, epoch) alone. So resuming at record p only skips the undecoded records of
one epoch.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from detection_core.data.left_out import without
from detection_core.data.records import fetched_ahead, record_reader
from detection_core.storage.shard_cache import RecordFile, uri_of

# Any number but 0, which tf.data reads as "none".
_GRAPH_SEED = 1
# Separates the streams of consecutive seeds; otherwise seed s, epoch e would equal seed s - 1, epoch e + 1.
_SEED_STRIDE = 1_000_003


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceOptions:
    """How records are read for training.

    Attributes:
        shuffle: reshuffle every epoch.
        shuffle_buffer_size: number of records in the shuffle buffer.
        num_readers: number of files to interleave.
        read_block_length: consecutive records from one file.
        num_epochs: 0: without end.
        sample_1_of_n_examples: take every n-th record only.
        first_example: number of the first record to take.
        left_out: digests of records to skip, see `detection_core.data.left_out`.
    """

    shuffle: bool = True
    shuffle_buffer_size: int = 2048
    num_readers: int = 64
    read_block_length: int = 32
    num_epochs: int = 0
    sample_1_of_n_examples: int = 1
    first_example: int = 0
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
    """Return all records once, string [], in an order that depends only on the files and options."""
    return _interleaved(tf.constant([uri_of(path) for path in paths]), paths, options)


def _interleaved(
    paths: tf.Tensor, record_files: Sequence[RecordFile], options: SequenceOptions
) -> tf.data.Dataset:
    readers = max(1, min(options.num_readers, len(record_files)))
    records = fetched_ahead(tf.data.Dataset.from_tensor_slices(paths), record_files).interleave(
        record_reader(record_files), cycle_length=readers, block_length=max(1, options.read_block_length)
    )
    records, every = without(records, options.left_out), options.sample_1_of_n_examples
    return records.shard(every, options.first_example) if every > 1 else records


def shuffled_epochs(
    epoch_elements: Callable[[tf.Tensor], tf.data.Dataset],
    options: SequenceOptions,
    *,
    seed: int,
    first_epoch: int = 0,
) -> tf.data.Dataset:
    """Chain epochs of `SeededElement`s, each shuffled from (seed, epoch).

    The function maps the int64 [2] seed of an epoch to its elements before shuffling.
    """

    def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        # Set the seed of this function's graph, because shuffle would otherwise depend on tf.random.set_seed.
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
    """Return the `epoch_elements` of record files for `shuffled_epochs`; each epoch shuffles the files."""
    all_paths = tf.constant([uri_of(path) for path in paths])

    def epoch_elements(epoch_seed: tf.Tensor) -> tf.data.Dataset:
        order = all_paths
        if options.shuffle and len(paths) > 1:
            order = tf.random.experimental.stateless_shuffle(all_paths, seed=epoch_seed)
        return _interleaved(order, paths, options)

    return epoch_elements


# A mixture's choices are drawn in blocks, so that those before a start position are counted quickly.
_BLOCK = 4096


def _block(weights: Sequence[float], seed: int, number: tf.Tensor | int) -> tf.Tensor:
    """Return int64 [_BLOCK], the index of the source sequence of each element."""
    logits = tf.math.log(tf.constant([list(weights)], tf.float32))
    block_seed = tf.stack([tf.constant(seed, tf.int64), tf.cast(number, tf.int64)])
    return tf.random.stateless_categorical(logits, _BLOCK, block_seed)[0]


def taken_before(weights: Sequence[float], *, seed: int, start: int) -> list[int]:
    """Count how many of a mixture's first `start` elements come from each sequence."""
    counts: np.ndarray = np.zeros(len(weights), np.int64)
    for number in range(-(-start // _BLOCK)):
        chosen = _block(weights, seed, number).numpy()[: start - number * _BLOCK]
        counts += np.bincount(chosen, minlength=len(weights))
    return counts.tolist()


def mixture(
    sequences: Sequence[Callable[[int], tf.data.Dataset]], weights: Sequence[float], *, seed: int, start: int
) -> tf.data.Dataset:
    """Draw each element from one of several sequences, by weights above 0, from position `start` on.

    A sequence is a function of the position of its first element.
    """
    positions = taken_before(weights, seed=seed, start=start)
    parts = [sequence(position) for sequence, position in zip(sequences, positions, strict=True)]
    first, skipped = divmod(start, _BLOCK)
    blocks = tf.data.Dataset.range(first, tf.int64.max)
    choices = blocks.flat_map(
        lambda number: tf.data.Dataset.from_tensor_slices(_block(weights, seed, number))
    )
    return tf.data.Dataset.choose_from_datasets(parts, choices.skip(skipped), stop_on_empty_dataset=False)


# Repeat factors are integers in this unit, so that sums do not depend on the order of images.
_ONE = 1 << 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class RepeatFactors:
    """How often each image is read in an epoch, so that images of rare classes are repeated.

    Gupta, Dollár and Girshick, "LVIS: A Dataset for Large Vocabulary Instance Segmentation", 2019,
    https://arxiv.org/abs/1908.03195. The repeat factor of a class in a fraction f of the images is max(1,
    sqrt(t / f)). An image has the largest factor of its classes.

    Attributes:
        of_class: factor of each class, in 1 / 4096.
        total: sum of all images' factors.
    """

    of_class: tuple[int, ...]
    total: int

    @property
    def examples(self) -> int:
        """The length of an epoch, repeats included."""
        return -(-self.total // _ONE)

    def of_image(self, classes: tf.Tensor) -> tf.Tensor:
        """Return an image's factor, int64 [], in 1 / 4096; negative `classes`, int [G], are ignored."""
        table = tf.constant([_ONE, *self.of_class], tf.int64)
        rows = tf.clip_by_value(tf.cast(classes, tf.int64) + 1, 0, len(self.of_class))
        return tf.reduce_max(tf.gather(table, tf.concat([tf.constant([0], tf.int64), rows], 0)))

    def repeated(self, elements: tf.data.Dataset, seed: tf.Tensor) -> tf.data.Dataset:
        """Repeat an epoch's elements by their factors, rounded up or down at random; `seed` is int64 [2].

        The input pairs an element with its image's factor from `of_image`. The result has exactly `examples`
        elements, without factors.
        """
        # Systematic sampling: the factors are laid end to end. Equidistant marks start at a random offset,
        # one for each example of the epoch. An image is read once for each mark in its interval.
        offset = tf.random.stateless_uniform([], seed, minval=0, maxval=self.total, dtype=tf.int64)
        counted = elements.scan(offset, self._marks)
        return counted.flat_map(lambda one, times: tf.data.Dataset.from_tensors(one).repeat(times))

    def _marks(self, start: tf.Tensor, pair: Any) -> tuple[tf.Tensor, tuple[Any, tf.Tensor]]:
        """Count the marks in an image's interval."""
        element, factor = pair
        end = start + factor * self.examples
        return end, (element, end // self.total - start // self.total)


def find_repeat_factors(classes: Iterable[np.ndarray], threshold: float) -> RepeatFactors:
    """Compute each class's repeat factor; a class in fewer images than the `threshold` fraction is rare.

    `classes` are int [G] for each image; negative ones are ignored.
    """
    sets = Counter(frozenset(np.unique(of_image[of_image >= 0]).tolist()) for of_image in classes)
    images = sum(sets.values())
    within: Counter[int] = Counter()
    for of_image, count in sets.items():
        within.update({number: count for number in of_image})
    factors = [
        round(_ONE * max(1.0, (threshold * images / within[number]) ** 0.5)) if number in within else _ONE
        for number in range(max(within, default=-1) + 1)
    ]
    total = sum(count * max([_ONE, *(factors[c] for c in of_image)]) for of_image, count in sets.items())
    return RepeatFactors(of_class=tuple(factors), total=max(1, total))


def with_following(elements: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Return, for each element, a window: a dataset of it and the `count` elements after it.

    Elements, of any structure and size, are stored once and shared by all their windows. The last windows of
    a sequence are smaller.
    """
    return elements.window(count + 1, shift=1).map(_one_dataset)


@tf.autograph.experimental.do_not_convert
def _one_dataset(*fields: Any) -> tf.data.Dataset:
    structure = fields[0] if len(fields) == 1 else fields
    return tf.data.Dataset.zip(structure)


def element_at(window: tf.data.Dataset, number: tf.Tensor) -> Any:
    """Return the element at an int64 [] index of a window."""
    return window.skip(number).take(1).get_single_element()
