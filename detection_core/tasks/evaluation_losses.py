"""The losses of a finished detector on what its config evaluates."""

from __future__ import annotations

from collections import defaultdict

import tensorflow as tf

from detection_core.builders.datasets import build_eval_dataset
from detection_core.builders.evaluation_settings import build_evaluation_settings
from detection_core.config.check import check_evaluation
from detection_core.config.label_map_file import load_label_map
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.exporters.detector_folder import load_detector


def measure_losses(model_path: str, config: PipelineConfig, *, batch_size: int = 1) -> dict[str, float]:
    """Average the losses that a detector has on images that are not augmented.

    Args:
        model_path: a detector folder, float or quantized.
        config: its first `eval_input_reader` names the records.
        batch_size: images computed at once. An image counts the same in a batch of any size; where a loss is
            divided by the objects of a batch, its mean depends on the size all the same.

    Returns:
        Losses by the names that training gives them, `Loss/total_loss` among them, which is their sum.

    Raises:
        ModelError: when the detector cannot be read.
        ConfigError: when `eval_config` or a reader for evaluation cannot be followed.
        DataError: when there are no records, or one is damaged.
    """
    checked = check_evaluation(config)
    label_map = load_label_map(build_evaluation_settings(checked).label_map_path)
    model = load_detector(model_path).model
    losses = tf.function(lambda batch: model.losses(batch, training=False))
    sums: defaultdict[str, float] = defaultdict(float)
    images = 0
    for batch in build_eval_dataset(checked, label_map=label_map, batch_size=batch_size):
        count = int(batch.images.pixels.shape[0])
        images += count
        for name, value in losses(batch).items():
            sums[name] += float(value) * count
    return {name: value / images for name, value in sums.items()}
