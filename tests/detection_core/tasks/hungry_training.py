"""A training whose batch does not fit: TensorFlow's own allocator refuses a tensor beyond any memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from detection_core.builders.train_plan import build_train_plan
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.family import FAMILIES, register_family
from detection_core.progress import Reporter
from detection_core.structures import Batch
from detection_core.tasks.fitting.fit import FitRequest, fit
from detection_core.training.loop import TrainingResult
from tests.support.quadrants import CONFIG, QUADRANT_FAMILY, QuadrantDetector
from tests.support.tiny_training import write_examples

_BEYOND = 1 << 46  # numbers: 256 TiB, more than addresses


@contextmanager
def hungry_detectors(most: int, after: int = 0) -> Iterator[None]:
    """Let losses ask for more than there is, for more images than `most`, and after so many updates."""
    losses, counted = QuadrantDetector.losses, tf.Variable(0, trainable=False)

    def hungry(self: QuadrantDetector, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        found = losses(self, batch, training)
        refused = tf.logical_and(batch.images.pixels.shape[0] > most, counted.assign_add(1) > after)
        numbers = tf.where(refused, tf.constant(_BEYOND, tf.int64), 1)
        none = 0.0 * tf.reduce_sum(tf.random.stateless_uniform([numbers], [0, 0]))
        return {name: loss + none for name, loss in found.items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QuadrantDetector, "losses", hungry)
        register_family(QUADRANT_FAMILY)
        try:
            yield
        finally:
            FAMILIES.pop(QUADRANT_FAMILY.name, None)


def train_hungry(
    folder: Path, *, steps: int = 3, progress: Reporter | None = None, **train_config: Any
) -> tuple[QuadrantDetector, TrainingResult]:
    """Train on four images an update, or go on in the same folder."""
    examples = folder / "examples"
    if not examples.exists():
        write_examples(examples)
    fields = {"seed": 1, "num_steps": steps, "batch_size": 4} | train_config
    changes = {f"train_config.{name}": value for name, value in fields.items()}
    config = apply_overrides(parse_pipeline_config(CONFIG), changes)
    config = point_at_examples(config, str(examples))
    plan = build_train_plan(config, log_every=1)
    plan.reproducibility.set_up()
    model = QuadrantDetector(2)
    labels, work = load_label_map(str(examples / "label_map.pbtxt")), str(folder / "work")
    request = FitRequest(model=model, config=config, label_map=labels, plan=plan, work_folder=work)
    return model, fit(request, job="train", progress=progress)
