"""Run each stage of the training input from memory, so that it can be measured alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from detection_core.builders.datasets import build_train_dataset, train_reader
from detection_core.builders.input_pipeline import build_training_stream, model_image_resizer
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.batch import batched, network_input
from detection_core.data.decode import decode_pixels, parse_record
from detection_core.data.label_map import LabelMap
from detection_core.data.resize import Resizer
from detection_core.structures import Batch, Sample

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
