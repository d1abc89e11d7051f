"""Build datasets of batches, iterators of ground truth, and lengths in steps, from input readers."""

import copy
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.artifacts.model_run import LeftOut
from detection_core.augment.augmentation import Augmentations
from detection_core.builders.input_pipeline import (
    build_input_reader,
    build_training_stream,
    model_image_resizer,
    score_columns,
)
from detection_core.config.label_map_file import load_label_map
from detection_core.config.messages.training import fields_in_epochs, in_steps
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.batch import batched, find_class_weights, network_input
from detection_core.data.decode import decode_pixels, parse_record
from detection_core.data.label_map import LabelMap
from detection_core.data.left_out import find_undecodable
from detection_core.data.reader import Reader
from detection_core.data.records import count_records, naming_bad_records
from detection_core.data.resize import Resizer
from detection_core.structures import Batch, Instances, Sample

_logger = logging.getLogger(__name__)

# Decoded images up to this size stay in memory: each is then decoded once instead of every epoch.
DEFAULT_CACHE_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerShard:
    """The part of every batch that one worker reads; all parts together are the batch of a single worker.

    Attributes:
        worker: its number, from 0.
        workers: number of workers.
        replicas: over all workers; each element of a dataset is the batch of one replica.
        left_out: records that no worker reads.
    """

    worker: int = 0
    workers: int = 1
    replicas: int = 1
    left_out: tuple[LeftOut, ...] = ()


_ALL = WorkerShard()


def build_train_dataset(
    config: CheckedConfig,
    *,
    label_map: LabelMap,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    shard: WorkerShard = _ALL,
    class_weights: tuple[float, ...] = (),
) -> tf.data.Dataset:
    """Build the training dataset, endless unless the reader sets num_epochs.

    The order and all random changes depend only on the records, the configuration and `seed`. So a dataset
    that begins at `start_step` yields the same batches as one from step 0 does from there on.

    Args:
        config: its train_input_reader names the records, its train_config the augmentations.
        label_map: class text -> class id.
        batch_size: images per update, over all replicas.
        seed: any integer.
        start_step: number of batches to skip; less than one epoch is read, but not decoded.
        cache_bytes: keep decoded images in memory if they need at most this. The order differs between a
            cached and an uncached run.
        shard: this worker's part of every batch.
        class_weights: from `training_class_weights`; empty: 1 for all.

    Returns:
        `Batch`es of exactly `batch_size / shard.replicas`.

    Raises:
        DataError: when there are no records, or one is damaged.
    """
    reader = train_reader(config, label_map).leaving_out(shard.left_out)
    start = start_step * batch_size
    stream = build_training_stream(config, batch_size=batch_size, class_weights=class_weights)
    samples = reader.training_samples(seed=seed, start=start, cache_bytes=cache_bytes)
    drawn = stream.drawn(samples, start)
    drawn = drawn.shard(shard.workers, shard.worker) if shard.workers > 1 else drawn
    elements = _mapped(drawn, stream.element)
    batches = batched(elements, batch_size // shard.replicas, drop_remainder=True)
    return batches.prefetch(reader.prefetched_batches)


def training_records(
    config: CheckedConfig, *, label_map: LabelMap, seed: int, step: int, left_out: Sequence[LeftOut] = ()
) -> list[bytes]:
    """Return the records of a training batch, as stored in their files.

    Args:
        config: as for `build_train_dataset`.
        label_map: class text -> class id.
        seed: that of the training.
        step: number of the batch, from 0.
        left_out: records that the training skips.

    Returns:
        `batch_size` records in the batch's order. If images are mixed, further records follow, with which
        the last ones may be mixed.
    """
    reader = train_reader(config, label_map).leaving_out(left_out).undecoded()
    batch_size = config.train_config.batch_size
    stream = build_training_stream(config, batch_size=batch_size)
    mixed = 0 if isinstance(stream.augment, Augmentations) else stream.pool
    start = step * batch_size
    elements = reader.training_samples(seed=seed, start=start, cache_bytes=DEFAULT_CACHE_BYTES)
    return [seeded.element.numpy() for seeded in elements.take(batch_size + mixed)]


def one_batch_config(config: CheckedConfig) -> CheckedConfig:
    """Return a copy of a training's config for the records of one of its batches, read in order.

    It trains as the config does, but without validation and checkpoint: the start is given separately.
    """
    alone = copy.deepcopy(config)
    alone.train_input_reader.shuffle = False
    for field in ("repeat_factor_threshold", "sample_1_of_n_examples", "num_epochs"):
        alone.train_input_reader.ClearField(field)
    for field in ("validation", "fine_tune_checkpoint"):
        alone.train_config.ClearField(field)
    return alone


def iterate_training_pairs(
    config: CheckedConfig, *, label_map: LabelMap, seed: int
) -> Iterator[tuple[Sample, Batch]]:
    """Yield each training sample both decoded and as trained on, in the training's order.

    Args:
        config: as for `build_train_dataset`; without a shard, these are its first elements.
        label_map: class text -> class id.
        seed: as for `build_train_dataset`.

    Yields:
        The sample, and an element of a batch without the leading B, all tensors eager.

    Raises:
        DataError: when there are no records, or one is damaged.
    """
    reader = train_reader(config, label_map)
    stream = build_training_stream(config, batch_size=config.train_config.batch_size)
    samples = reader.training_samples(seed=seed, start=0, cache_bytes=DEFAULT_CACHE_BYTES)
    with naming_bad_records(reader.paths, reader.decode):
        yield from stream.drawn(samples, 0).map(stream.pair, num_parallel_calls=1, deterministic=True)


def train_reader(config: CheckedConfig, label_map: LabelMap) -> Reader:
    """Return the reader of all records of the train_input_reader; DataError when there are none."""
    message, scores = config.train_input_reader, score_columns(config.model)
    reader = build_input_reader(message, label_map, "train_input_reader", scores=scores)
    if message.decode_at_reduced_size:
        resizer = model_image_resizer(config.model)
        decoding = dataclasses.replace(reader.decoding, target_size=resizer.resized_size)
        reader = dataclasses.replace(reader, decoding=decoding)
    return dataclasses.replace(reader, repeat_threshold=message.repeat_factor_threshold)


def training_class_weights(
    config: CheckedConfig, *, label_map: LabelMap, left_out: Sequence[LeftOut] = ()
) -> dict[str, float]:
    """Return the weight of each class in the class loss, by name; empty without class_weight_power.

    It counts the objects of all training records; see `find_class_weights`.

    Raises:
        DataError: when there are no records, or one is damaged.
    """
    power = config.train_config.class_weight_power
    if not power:
        return {}
    objects = train_reader(config, label_map).leaving_out(left_out).count_objects(label_map.num_classes)
    weights = dict(zip(label_map.names, find_class_weights(objects, power), strict=True))
    _logger.info("class weights in the loss: %s", ", ".join(f"{n} {w:.3g}" for n, w in weights.items()))
    return weights


def find_bad_train_records(config: CheckedConfig, *, label_map: LabelMap) -> tuple[list[LeftOut], int]:
    """Decode every training record; return those that fail, and the count; DataError for a damaged file."""
    reader = train_reader(config, label_map)
    return find_undecodable(reader.paths, reader.decode), sum(map(count_records, reader.paths))


def build_eval_dataset(config: CheckedConfig, *, label_map: LabelMap, batch_size: int = 1) -> tf.data.Dataset:
    """Build the dataset for evaluation losses: each example once, in the records' order, not augmented.

    It yields `Batch`es of the first eval_input_reader's records; the last batch may be smaller.

    Raises:
        DataError: when there are no records.
    """
    return _plain_batches(eval_reader(config, label_map), model_image_resizer(config.model), batch_size)


def representative_pixels(
    config: CheckedConfig, *, label_map: LabelMap, examples: int, batch_size: int = 8, start: int = 0
) -> Iterator[tf.Tensor]:
    """Yield `examples` training images from number `start` on: each once, in order, not augmented.

    They come in whole batches, float32 [B, H, W, 3], resized, 0..255. Records before them are not decoded.

    Raises:
        DataError: when there are no records, or one is damaged.
    """
    reader = build_input_reader(config.train_input_reader, label_map, "train_input_reader")
    dataset = _plain_batches(reader, model_image_resizer(config.model), batch_size, start)
    with naming_bad_records(reader.paths, reader.decode):
        for batch in dataset.take(-(-examples // batch_size)):
            yield batch.images.pixels


def _plain_batches(reader: Reader, resizer: Resizer, batch_size: int, start: int = 0) -> tf.data.Dataset:
    """Return `Batch`es of each example from `start` on once, in the records' order, not augmented."""
    samples = reader.ordered_samples(start)
    elements = _mapped(samples, lambda sample: _resized(sample, resizer, reader.max_boxes))
    return batched(elements, batch_size, drop_remainder=False).prefetch(reader.prefetched_batches)


def iterate_truth(config: CheckedConfig, *, label_map: LabelMap) -> Iterator[tuple[np.ndarray, Instances]]:
    """Yield each image of the first eval_input_reader as stored, uint8 [H, W, 3] RGB, with its ground truth.

    Raises:
        DataError: when there are no records, or one is damaged.
    """
    return eval_reader(config, label_map).truth()


def sampled_evaluation(
    config: CheckedConfig, images: int, *, label_map: LabelMap
) -> tuple[CheckedConfig, int]:
    """Limit a config's evaluation to a fixed sample of images, spread evenly over the records.

    The first eval_input_reader names the records; 0 images means all. The given config is not changed.

    Returns:
        The new config, and the number of images that it evaluates.

    Raises:
        DataError: when there are no records, or a file is damaged.
    """
    found = eval_reader(config, label_map).examples()
    if not images or found <= images:
        return config, found
    sampled = copy.deepcopy(config)
    reader, every = sampled.eval_input_reader[0], -(-found // images)
    reader.sample_1_of_n_examples = every * max(1, reader.sample_1_of_n_examples)
    return sampled, -(-found // every)


def eval_reader(config: CheckedConfig, label_map: LabelMap) -> Reader:
    """Return the reader of the first eval_input_reader; raise DataError when there are no records."""
    return build_input_reader(config.eval_input_reader[0], label_map, "eval_input_reader[0]")


READ, PARSE, DECODE, RESIZE, AUGMENT, BATCH = "read", "parse", "decode", "resize", "augment", "batch"
WHOLE, BARE = "whole input", "bare decoding"


def build_input_stages(
    config: CheckedConfig, *, label_map: LabelMap, batch_size: int, images: int
) -> Mapping[str, tf.data.Dataset]:
    """Build the output of each stage of a training's input, endless, from the previous stage in memory.

    Args:
        config: as for `build_train_dataset`.
        label_map: class text -> class id.
        batch_size: images per update.
        images: how many of the training's first images are repeated.

    Returns:
        Name -> dataset. READ and WHOLE read files; DECODE includes parsing, AUGMENT includes resizing. BARE
        only decodes and resizes the pixels of JPEG and PNG files. Elements of BATCH and WHOLE are batches,
        those of the others are single images.

    Raises:
        DataError: when there are no records, or one is damaged.
    """
    reader, resizer = train_reader(config, label_map), model_image_resizer(config.model)
    stream = build_training_stream(config, batch_size=batch_size)
    seeded = reader.shuffled_records(seed=0, first_epoch=0)
    kept = seeded.take(images).cache()
    records = kept.map(lambda one: one.element)
    samples = kept.map(lambda one: one._replace(element=reader.decode_sample(one.element))).cache()
    files = records.map(lambda record: parse_record(record)["image/encoded"]).cache()
    elements = _mapped(stream.drawn(samples.repeat(), 0), stream.element).take(images).cache()
    return {
        READ: seeded.repeat(),
        PARSE: _mapped(records.repeat(), parse_record),
        DECODE: _mapped(records.repeat(), reader.decode_sample),
        RESIZE: _mapped(samples.repeat(), lambda one: _resized(one.element, resizer, reader.max_boxes)),
        AUGMENT: _mapped(stream.drawn(samples.repeat(), 0), stream.element),
        BATCH: batched(elements.repeat(), batch_size, drop_remainder=True),
        WHOLE: build_train_dataset(
            config, label_map=label_map, batch_size=batch_size, seed=0, cache_bytes=0
        ).repeat(),
        BARE: _mapped(files.repeat(), lambda file: _bare(file, resizer, reader.decoding.channels)),
    }


def _mapped(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


@tf.autograph.experimental.do_not_convert
def _resized(sample: Sample, resizer: Resizer, max_boxes: int) -> Batch:
    size = tf.shape(sample.image)[:2]
    return network_input(sample, resizer=resizer, max_boxes=max_boxes, original_size=size)


@tf.autograph.experimental.do_not_convert
def _bare(file: tf.Tensor, resizer: Resizer, channels: int) -> tf.Tensor:
    return resizer(decode_pixels(file, channels=channels), tf.zeros([0, 0, 0], tf.uint8)).image


def with_steps(config: CheckedConfig) -> CheckedConfig:
    """Return a config with every length in steps.

    An epoch is one pass over the training examples, batch_size of them per update.

    The input readers must be filled in. A config without epochs is returned unchanged.

    Raises:
        ConfigError: when the reader is invalid, or a length has more updates than its field can hold.
        DataError: when there are no records, or a file is damaged.
    """
    if not fields_in_epochs(config.train_config):
        return config
    label_map = load_label_map(config.train_input_reader.label_map_path)
    examples = train_reader(config, label_map).examples()
    return in_steps(config, examples / config.train_config.batch_size)
