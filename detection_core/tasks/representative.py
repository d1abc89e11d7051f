"""Training images, not augmented, on which quantization ranges are measured."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from detection_core.builders.datasets import build_representative_dataset
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.data.label_map import LabelMap


def representative_pixels(
    config: CheckedConfig, *, label_map: LabelMap, examples: int, batch_size: int = 8
) -> Iterator[tf.Tensor]:
    """Yield the first images of the training input as the network sees them in inference.

    Args:
        config: its train_input_reader names the records.
        label_map: class text to class id.
        examples: about how many images; whole batches are given.
        batch_size: images in a batch; the last one may be smaller.

    Yields:
        float32 [B, H, W, 3], resized pixels, 0..255.

    Raises:
        DataError: when there are no records, or one is damaged.
    """
    dataset = build_representative_dataset(config, label_map=label_map, batch_size=batch_size)
    for batch in dataset.take(-(-examples // batch_size)):
        yield batch.images.pixels
