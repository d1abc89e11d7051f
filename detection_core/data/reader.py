"""The records of one input reader, and how each is decoded."""

from __future__ import annotations

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
from detection_core.data.ahead import done_ahead
from detection_core.data.decode import (
    DecodedExample,
    DecodeOptions,
    decode_classes,
    decode_example,
    drop_unusable_objects,
)
from detection_core.data.example_columns import encoded_image, image_name
from detection_core.data.image_cache import image_cache
from detection_core.data.image_header import ImageFault, read_header
from detection_core.data.records import check_records, count_records, naming_bad_records
from detection_core.data.sequence import (
    RepeatFactors,
    SequenceOptions,
    find_repeat_factors,
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

# Up to this many bytes of records all checksums are compared before anything else is done with them.
_CHECKED_BYTES = 256 << 20
_MEASURED_EXAMPLES = 16
# Decoded images that are buffered ahead of the consumer of ground truth.
_AHEAD_BYTES = 256 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reader:
    """Records on disk as samples.

    Attributes:
        paths: TFRecord files.
        groups: the same files, in groups that `weights` speaks of; empty: one group.
        weights: of the groups, the probability up to scale that each gives the next training example; empty:
            all files are read in full.
        table: class text to class id, see `class_text_table`; None: only ids in the records count.
        decoding: what to read of a record.
        sequence: how records are read for training.
        max_boxes: objects of an image beyond it are left out of batches; `truth` has all of them.
        prefetched_batches: batches made ahead; negative: chosen while running.
        left_out: records that are not read.
        repeat_threshold: training reads images of classes that fewer than this fraction of the images have
            more often, see `RepeatFactors`; 0: each once an epoch.
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
        """Decode one record, without the objects that cannot be used."""
        return self._decode_and_count(record)[0]

    @tf.autograph.experimental.do_not_convert
    def _decode_and_count(self, record: tf.Tensor) -> tuple[DecodedExample, tf.Tensor]:
        """Decode one record, and say how many objects cannot be used, int32 []."""
        decoded = decode_example(record, table=self.table, options=self.decoding)
        usable = drop_unusable_objects(decoded)
        return usable, tf.size(decoded.difficult) - tf.size(usable.difficult)

    def decode_sample(self, record: tf.Tensor) -> Sample:
        """Decode one record to a training sample."""
        return self.decode(record).sample

    def keeping_decoded(self) -> Reader:
        """Return a reader that keeps decoded images on disk, where the environment says so.

        Raises:
            ConfigError: when it names a folder or a size that is no use.
        """
        cache = image_cache()
        return dataclasses.replace(self, decoding=dataclasses.replace(self.decoding, cache=cache))

    def undecoded(self) -> Reader:
        """Return a reader whose training samples are the records themselves, string []."""
        return _RecordReader(**{f.name: getattr(self, f.name) for f in dataclasses.fields(self)})

    def examples(self) -> int:
        """Count the examples of an epoch of training, repeats included.

        Raises:
            DataError: when a file is damaged; in large sets only damage to its structure is seen here.
        """
        images = self._images()
        return self._repeats.examples if self._repeats else images

    def _images(self) -> int:
        """Count the records that are read."""
        count = check_records if self._stored_bytes() <= _CHECKED_BYTES else count_records
        records = sum(count(path) - self._left_out_of(uri_of(path)) for path in self.paths)
        return -(-records // max(1, self.sequence.sample_1_of_n_examples))

    def _left_out_of(self, path: str) -> int:
        return sum(record.path == path for record in self.left_out)

    def leaving_out(self, left_out: Sequence[LeftOut]) -> Reader:
        """Return a reader that does not read some records."""
        digests = tuple(record.digest for record in left_out)
        sequence = dataclasses.replace(self.sequence, left_out=digests)
        return dataclasses.replace(self, sequence=sequence, left_out=tuple(left_out))

    def decoded_bytes(self, *, limit: int) -> int:
        """Estimate the bytes of all decoded images, from the first few; above `limit` it may be too low.

        Raises:
            DataError: when a record is damaged.
        """
        stored = self._stored_bytes()
        if stored > limit:
            return stored
        sizes = [image.nbytes for image, _ in itertools.islice(self.truth(), _MEASURED_EXAMPLES)]
        return round(float(np.mean(sizes)) * self._images()) if sizes else 0

    def _stored_bytes(self) -> int:
        """Return the size of the files; remote ones are taken for large."""
        paths = [uri_of(path) for path in self.paths]
        local = not any(map(files.is_remote, paths))
        return sum(map(os.path.getsize, paths)) if local else 1 << 62

    def parts(self) -> list[Reader]:
        """Return a reader of each group."""
        return [dataclasses.replace(self, paths=group, groups=(), weights=()) for group in self.groups]

    def ordered_samples(self) -> tf.data.Dataset:
        """Return all samples once, in an order that depends on the files alone."""
        return self._in_order(self.decode_sample)

    def _in_order(self, decode: Callable[[tf.Tensor], Any]) -> tf.data.Dataset:
        return ordered_records(self.paths, self.sequence).map(
            decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )

    def shuffled_records(self, *, seed: int, first_epoch: int) -> tf.data.Dataset:
        """Return undecoded records with seeds, epoch after epoch."""
        once, repeats = shuffled_files(self.paths, self.sequence), self._repeats
        if not repeats:
            return shuffled_epochs(once, self.sequence, seed=seed, first_epoch=first_epoch)
        pair = functools.partial(self._with_factor, repeats, tf.identity)

        def epoch(epoch_seed: tf.Tensor) -> tf.data.Dataset:
            return repeats.repeated(once(epoch_seed).map(pair), epoch_seed)

        return shuffled_epochs(epoch, self.sequence, seed=seed, first_epoch=first_epoch)

    def shuffled_cached_samples(self, *, seed: int, first_epoch: int, examples: int) -> tf.data.Dataset:
        """Return samples with seeds, epoch after epoch, each decoded once and kept in memory."""
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
        """How often images are read; None: each once. All records are looked through."""
        if not self.repeat_threshold:
            return None
        records = ordered_records(self.paths, self.sequence)
        classes = records.map(self._classes, num_parallel_calls=tf.data.AUTOTUNE)
        with naming_bad_records(self.paths, self.decode):
            return find_repeat_factors(classes.as_numpy_iterator(), self.repeat_threshold)

    @tf.autograph.experimental.do_not_convert
    def _classes(self, record: tf.Tensor) -> tf.Tensor:
        return decode_classes(record, table=self.table)

    @tf.autograph.experimental.do_not_convert
    def _with_factor(
        self, repeats: RepeatFactors, decode: Callable[[tf.Tensor], Any], record: tf.Tensor
    ) -> tuple[Any, tf.Tensor]:
        """Return a decoded record and how often it is read."""
        return decode(record), repeats.of_image(self._classes(record))

    def truth(self) -> Iterator[tuple[np.ndarray, Instances]]:
        """Yield each image as decoded, uint8 [H, W, 3], with its ground truth.

        Logs a warning with the number of unusable objects: many of them mean a label map that is not the one
        of these records.

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
                    "%d objects of the images read are left out: the label map does not know their class text"
                    " or id, or their box is not a number (%s)",
                    left_out,
                    os.path.dirname(uri_of(self.paths[0])),
                )

    def _decoded_in_order(self) -> Iterator[tuple[DecodedExample, tf.Tensor]]:
        """Decode all records; a few large images at once would take more memory than there is."""
        for path in map(uri_of, self.paths):
            if not files.is_remote(path):
                count_records(path)
        # Traced once for each call of this method: TensorFlow would warn of a function that is traced again.
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
        """Return the bytes of a record's image when decoded; the budget where that is not known."""
        try:
            size = read_header(encoded_image(record))
        except ImageFault as fault:
            if fault.reason == "decompression_bomb":
                raise DataError(
                    f"{fault.message}; the image {image_name(record)!r} is too large",
                    where=uri_of(self.paths[0]),
                ) from fault
            return _AHEAD_BYTES  # decoding tells what is wrong with it
        return size.height * size.width * self.decoding.channels or _AHEAD_BYTES


class _RecordReader(Reader):
    """Reads in the order in which samples are read."""

    def decode_sample(self, record: tf.Tensor) -> Any:
        """Return the record."""
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
        masks=_run_lengths(sample.truth.masks.numpy(), height, width, source_id),
        keypoints=sample.truth.keypoints.numpy(),
    )


def _run_lengths(masks: np.ndarray, height: int, width: int, source_id: str) -> np.ndarray:
    """Return the masks of an image, uint8 [G, h, w], as `Instances` has them.

    Raises:
        DataError: when they have not the image's size.
    """
    if masks.size and masks.shape[1:] != (height, width):
        raise DataError(
            f"expected masks of {height} rows and {width} columns, as the image has, found"
            f" {masks.shape[1]} and {masks.shape[2]}; make the record again",
            where=source_id,
        )
    return encode_masks(masks) if masks.size else np.full(len(masks), b"", object)
