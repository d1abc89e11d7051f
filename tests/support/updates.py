"""Trainings of a few updates on one batch, and detectors trained by the library on drawn examples."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from detection_core.builders.optimizer import build_optimizer
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.base import TOTAL_LOSS
from detection_core.ops.update_draws import update_draws
from detection_core.structures import Batch
from detection_core.training.loop_options import TrainOptions
from detection_core.training.step import TrainState, train_step
from tests.support.detectors import train_below
from tests.support.tiny_training import write_examples


def losses_of_descent(model: Any, batch: Batch, rate: float, updates: int) -> list[float]:
    """Descend by the gradients of the total loss, finite for each variable; return the losses."""
    losses = []
    for _ in range(updates):
        with tf.GradientTape() as tape, update_draws(1, 1):
            total = model.losses(batch, training=True)[TOTAL_LOSS]
        variables = model.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(total, variables), strict=True):
            values = tf.convert_to_tensor(gradient)
            assert np.isfinite(values).all(), variable.name
            variable.assign_sub(rate * values)
        losses.append(float(total))
    return losses


def losses_of_updates(model: Any, optimizer: Any, golden: Any, **options: Any) -> list[float]:
    """Train three updates on noise with a golden's objects; return the total losses before each."""
    pixels = np.random.RandomState(1).uniform(0.0, 255.0, golden.facts["input_shape"]).astype(np.float32)
    batch = Batch(golden.images._replace(pixels=tf.constant(pixels)), golden.truth)
    settings = TrainOptions(num_steps=3, **options)
    state = TrainState(model, build_optimizer(optimizer), settings, None)
    step = tf.function(lambda: train_step(state, settings, 1, batch).losses[TOTAL_LOSS])
    losses = [float(step()) for _ in range(3)]
    print(f"losses: {losses}")
    return losses


@dataclasses.dataclass(frozen=True)
class Trained:
    """What a training of the library left: `model`, `run` and `work` in a folder."""

    folder: str  # of the detector
    examples: str  # their folder
    report: Any
    lines: tuple[dict[str, float], ...]  # what it said of each update


def train_on_shapes(root: Path, config: str, *, labels: str = "", **options: Any) -> Trained:
    """Train on examples with masks and keypoints, or resume; a label map may replace theirs."""
    folder = root / "examples"
    if not folder.exists():
        write_examples(folder, shapes=True)
    if labels:
        (folder / "label_map.pbtxt").write_text(labels)
    lines: list[dict[str, float]] = []
    options.setdefault("progress", lambda update: lines.append(update.details))
    pointed = point_at_examples(parse_pipeline_config(config), str(folder), eval_split="train")
    report = train_below(root, pointed, log_every=1, **options)
    return Trained(str(root / "model"), str(folder), report, tuple(lines))
