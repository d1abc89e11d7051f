"""Read and decode the records of one input reader."""

import collections
import dataclasses
import functools
import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.model_run import LeftOut
from detection_core.data.decode import (
    DecodedExample,
    DecodeOptions,
    decode_classes,
    decode_example,
    drop_unusable_objects,
)
from detection_core.data.image_header import ImageFault, read_header
from detection_core.data.records import (
    check_records,
    count_records,
    done_ahead,
    encoded_image,
    image_name,
    naming_bad_records,
)
from detection_core.data.sequence import (
    RepeatFactors,
    SequenceOptions,
    find_repeat_factors,
    mixture,
    ordered_records,
    shuffled_epochs,
    shuffled_files,
)
from detection_core.errors import DataError
from detection_core.ops.mask_runs import encode_masks
from detection_core.storage import files
from detection_core.storage.shard_cache import RecordFile, uri_of
from detection_core.structures import Instances, Sample

_logger = logging.getLogger(__name__)

# Up to this many bytes of records, all checksums are compared first.
_CHECKED_BYTES = 256 << 20
_MEASURED_EXAMPLES = 16
_PART_SEED_STRIDE = 7_919
# Limit of decoded images that are buffered ahead of the consumer of ground truth.
_AHEAD_BYTES = 256 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads samples from record files.

    Attributes:
        paths: TFRecord files.
        groups: the same files, in the groups of `weights`; empty: one group.
        weights: sampling weight of each group for training; empty: all files are read in full.
        table: class text to class id, see `class_text_table`; None: only ids in the records count.
        decoding: what to read of a record.
        sequence: how records are read for training.
        max_boxes: maximum objects per image in batches; `truth` has all objects.
        prefetched_batches: batches made ahead; negative: chosen at run time.
        left_out: records to skip.
        repeat_threshold: images of classes in a smaller fraction of images are repeated, see
            `RepeatFactors`; 0: each image is read once an epoch.
    """

    paths: tuple[RecordFile, ...]
    groups: tuple[tuple[RecordFile, ...], ...] = ()
    weights: tuple[float, ...] = ()
    table: tf.lookup.StaticHashTable | None = None
    decoding: DecodeOptions = dataclasses.field(default_factory=DecodeOptions)
    sequence: SequenceOptions = dataclasses.field(default_factory=SequenceOptions)
    max_boxes: int = 100
    prefetched_batches: int = tf.data.AUTOTUNE
    left_out: tuple[LeftOut, ...] = ()
    repeat_threshold: float = 0.0

    @tf.autograph.experimental.do_not_convert
    def decode(self, record: tf.Tensor) -> DecodedExample:
        """Decode one record, without its unusable objects."""
        return self._decode_and_count(record)[0]

    @tf.autograph.experimental.do_not_convert
    def _decode_and_count(self, record: tf.Tensor) -> tuple[DecodedExample, tf.Tensor]:
        """Decode one record and count its unusable objects, int32 []."""
        decoded = decode_example(record, table=self.table, options=self.decoding)
        usable = drop_unusable_objects(decoded)
        return usable, tf.size(decoded.difficult) - tf.size(usable.difficult)

    def decode_sample(self, record: tf.Tensor) -> Sample:
        """Decode one record to a training sample."""
        return self.decode(record).sample

    def undecoded(self) -> "Reader":
        """Return a reader whose training samples are undecoded records, string []."""
        return _RecordReader(**{f.name: getattr(self, f.name) for f in dataclasses.fields(self)})

    def by_file(self) -> "list[Reader]":
        """Return a reader for each file, or one where the records to read are counted over all files."""
        if self.sequence.sample_1_of_n_examples > 1:
            return [self]
        return [dataclasses.replace(self, paths=(path,), groups=(), weights=()) for path in self.paths]

    def share(self, part: int, parts: int) -> "Reader":
        """Return a reader of every `parts`-th of this one's examples, from number `part` on."""
        every = max(1, self.sequence.sample_1_of_n_examples)
        sequence = dataclasses.replace(
            self.sequence, sample_1_of_n_examples=every * parts, first_example=every * part
        )
        return dataclasses.replace(self, sequence=sequence)

    def examples(self) -> int:
        """Count the examples of a training epoch, repeats included.

        Raises:
            DataError: when a file is damaged; in large sets only its structure is checked here.
        """
        images = self._images()
        return self._repeats.examples if self._repeats else images

    def _images(self) -> int:
        count = check_records if self._stored_bytes() <= _CHECKED_BYTES else count_records
        left_out = collections.Counter(record.path for record in self.left_out)
        records = sum(count(path) - left_out[uri_of(path)] for path in self.paths)
        return -(-records // max(1, self.sequence.sample_1_of_n_examples))

    def leaving_out(self, left_out: Sequence[LeftOut]) -> "Reader":
        """Return a reader that skips some records."""
        digests = tuple(record.digest for record in left_out)
        sequence = dataclasses.replace(self.sequence, left_out=digests)
        return dataclasses.replace(self, sequence=sequence, left_out=tuple(left_out))

    def decoded_bytes(self, *, limit: int) -> int:
        """Estimate the bytes of decoded images, above `limit` perhaps too low; DataError if damaged."""
        stored = self._stored_bytes()
        if stored > limit:
            return stored
        sizes = [image.nbytes for image, _ in itertools.islice(self.truth(), _MEASURED_EXAMPLES)]
        return round(float(np.mean(sizes)) * self._images()) if sizes else 0

    def _stored_bytes(self) -> int:
        """Return the size of the files; remote files count as large."""
        paths = [uri_of(path) for path in self.paths]
        local = not any(map(files.is_remote, paths))
        return sum(map(os.path.getsize, paths)) if local else 1 << 62

    def training_samples(self, *, seed: int, start: int, cache_bytes: int) -> tf.data.Dataset:
        """Return `SeededElement`s of training samples from `start` on, counted over all epochs.

        Decoded images are kept in memory if they need no more than `cache_bytes`.

        Raises:
            DataError: when a record is damaged.
        """
        cached = self.decoded_bytes(limit=cache_bytes) <= cache_bytes
        if not self.weights:
            return self._samples_from(start, seed=seed, cached=cached)
        parts = [dataclasses.replace(self, paths=group, groups=(), weights=()) for group in self.groups]
        # One seed per part: with equal seeds, two images would be augmented alike.
        sequences = [
            functools.partial(part._samples_from, seed=seed + (number + 1) * _PART_SEED_STRIDE, cached=cached)
            for number, part in enumerate(parts)
        ]
        return mixture(sequences, self.weights, seed=seed, start=start)

    def _samples_from(self, start: int, *, seed: int, cached: bool) -> tf.data.Dataset:
        examples = self.examples() if cached or start else 0
        epoch, position = divmod(start, examples) if examples else (0, 0)
        if cached:
            _logger.info("%d training images are decoded once and kept in memory", examples)
            return self.shuffled_cached_samples(seed=seed, first_epoch=epoch, examples=examples).skip(
                position
            )
        records = self.shuffled_records(seed=seed, first_epoch=epoch).skip(position)
        return records.map(
            lambda seeded: seeded._replace(element=self.decode_sample(seeded.element)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )

    def ordered_samples(self, start: int = 0) -> tf.data.Dataset:
        """Return all samples from `start` on once, in an order that depends only on the files."""
        return self._in_order(self.decode_sample, start)

    def _in_order(self, decode: Callable[[tf.Tensor], Any], start: int = 0) -> tf.data.Dataset:
        records = ordered_records(self.paths, self.sequence).skip(start)
        return records.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)

    def shuffled_records(self, *, seed: int, first_epoch: int) -> tf.data.Dataset:
        """Return undecoded records with seeds for all epochs."""
        once, repeats = shuffled_files(self.paths, self.sequence), self._repeats
        if not repeats:
            return shuffled_epochs(once, self.sequence, seed=seed, first_epoch=first_epoch)
        pair = functools.partial(self._with_factor, repeats, tf.identity)

        def epoch(epoch_seed: tf.Tensor) -> tf.data.Dataset:
            return repeats.repeated(once(epoch_seed).map(pair), epoch_seed)

        return shuffled_epochs(epoch, self.sequence, seed=seed, first_epoch=first_epoch)

    def shuffled_cached_samples(self, *, seed: int, first_epoch: int, examples: int) -> tf.data.Dataset:
        """Return samples with seeds for all epochs, decoded once and kept in memory."""
        options = dataclasses.replace(self.sequence, shuffle_buffer_size=max(1, examples))
        decode: Callable[[tf.Tensor], Any] = self.decode_sample
        if self._repeats:
            decode = functools.partial(self._with_factor, self._repeats, self.decode_sample)
        cached = self._in_order(decode).cache()

        def epoch(epoch_seed: tf.Tensor) -> tf.data.Dataset:
            return self._repeats.repeated(cached, epoch_seed) if self._repeats else cached

        return shuffled_epochs(epoch, options, seed=seed, first_epoch=first_epoch)

    @functools.cached_property
    def _repeats(self) -> RepeatFactors | None:
        """Repeat factors of images, from a pass over all records; None: each image is read once."""
        return (
            find_repeat_factors(self._all_classes(), self.repeat_threshold) if self.repeat_threshold else None
        )

    def count_objects(self, classes: int) -> np.ndarray:
        """Count the objects of each class in a pass over all records, without repeats, int64 [`classes`]."""
        counts: np.ndarray = np.zeros(classes, np.int64)
        for of_image in self._all_classes():
            np.add.at(counts, of_image[(of_image >= 0) & (of_image < classes)], 1)
        return counts

    def _all_classes(self) -> Iterator[np.ndarray]:
        records = ordered_records(self.paths, self.sequence)
        classes = records.map(self._classes, num_parallel_calls=tf.data.AUTOTUNE)
        with naming_bad_records(self.paths, self.decode):
            yield from classes.as_numpy_iterator()

    @tf.autograph.experimental.do_not_convert
    def _classes(self, record: tf.Tensor) -> tf.Tensor:
        return decode_classes(record, table=self.table)

    @tf.autograph.experimental.do_not_convert
    def _with_factor(
        self, repeats: RepeatFactors, decode: Callable[[tf.Tensor], Any], record: tf.Tensor
    ) -> tuple[Any, tf.Tensor]:
        return decode(record), repeats.of_image(self._classes(record))

    def truth(self) -> Iterator[tuple[np.ndarray, Instances]]:
        """Yield each image as decoded, uint8 [H, W, 3], with its ground truth.

        Logs a warning with the number of unusable objects. If there are many, the label map does not match
        the records.

        Raises:
            DataError: when a record is damaged or cannot be decoded, naming it.
        """
        left_out = 0
        try:
            for example, unusable in self._decoded_in_order():
                left_out += int(unusable)
                yield np.asarray(example.sample.image), _image_truth(example)
        finally:
            if left_out:
                _logger.warning(
                    "%d objects are left out: the label map lacks their class, or their box is no"
                    " number (%s)",
                    left_out,
                    os.path.dirname(uri_of(self.paths[0])),
                )

    def _decoded_in_order(self) -> Iterator[tuple[DecodedExample, tf.Tensor]]:
        """Decode all records, and limit how many large images are in memory at once."""
        for path in map(uri_of, self.paths):
            if not files.is_remote(path):
                count_records(path)
        # Traced once per call of this method, because TensorFlow warns about repeated tracing.
        traced = tf.function(
            self._decode_and_count, input_signature=[tf.TensorSpec([], tf.string)], autograph=False
        ).get_concrete_function()

        def decode(record: bytes) -> tuple[DecodedExample, tf.Tensor]:
            return traced(tf.constant(record))

        records = ordered_records(self.paths, dataclasses.replace(self.sequence, num_readers=1)).prefetch(4)
        with naming_bad_records(self.paths, self.decode):
            yield from done_ahead(
                records.as_numpy_iterator(), decode, self._decoded_size, budget=_AHEAD_BYTES
            )

    def _decoded_size(self, record: bytes) -> int:
        """Return the bytes of a record's decoded image; if unknown, the budget."""
        try:
            size = read_header(encoded_image(record))
        except ImageFault as fault:
            if fault.reason == "decompression_bomb":
                raise DataError(
                    f"{fault.message}; the image {image_name(record)!r} is too large",
                    where=uri_of(self.paths[0]),
                ) from fault
            return _AHEAD_BYTES  # decoding reports the fault
        channels = self.decoding.channels + self.decoding.additional_channels
        return size.height * size.width * channels or _AHEAD_BYTES


class _RecordReader(Reader):
    def decode_sample(self, record: tf.Tensor) -> Any:
        return record


def _image_truth(example: DecodedExample) -> Instances:
    sample = example.sample
    height, width = sample.image.shape[:2]
    source_id = sample.source_id.numpy().decode("utf-8", "replace")
    return Instances(
        source_id=source_id,
        height=height,
        width=width,
        boxes=sample.truth.boxes.numpy(),
        classes=sample.truth.classes.numpy(),
        is_crowd=sample.truth.is_crowd.numpy(),
        area=sample.truth.area.numpy(),
        difficult=example.difficult.numpy(),
        group_of=example.group_of.numpy(),
        labelled=example.labelled.numpy(),
        not_exhaustive=example.not_exhaustive.numpy(),
        masks=_run_lengths(sample.truth.masks.numpy(), height, width, source_id),
        keypoints=sample.truth.keypoints.numpy(),
    )


def _run_lengths(masks: np.ndarray, height: int, width: int, source_id: str) -> np.ndarray:
    """Return masks, uint8 [G, h, w], as `Instances` has them; DataError when not of the image's size."""
    if masks.size and masks.shape[1:] != (height, width):
        raise DataError(
            f"expected masks of {height} rows and {width} columns, as the image has, found"
            f" {masks.shape[1]} and {masks.shape[2]}; make the record again",
            where=source_id,
        )
    return encode_masks(masks) if masks.size else np.full(len(masks), b"", object)
