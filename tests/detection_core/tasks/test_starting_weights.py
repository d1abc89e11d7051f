"""What gives a training its first weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.ssd.checkpoint_names.scoped_names import scoped_variables
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.tasks.starting_weights import fill_starting_weights
from tests.detection_core.tasks.tiny_training import config_text
from tests.detection_core.training.field_checkpoints import write_named_checkpoint

EXTRACTOR = "ssd_mobilenet_v2_fpn_keras"


def _config(path: str, **fields: object) -> TrainEvalPipelineConfig:
    changes = {f"train_config.{name}": value for name, value in fields.items()}
    return apply_overrides(
        parse_pipeline_config(config_text()), {"train_config.fine_tune_checkpoint": path, **changes}
    )


def test_nothing_gives_random_weights() -> None:
    config = _config("")
    start = fill_starting_weights(build_detector(config.model), config, "")
    assert (start.source, start.counts(), start.tables()) == ("random weights", {}, {})


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Of a TensorFlow 1 detector with another number of classes."""
    network = build_detector(_config("").model).network
    values = {
        v.name: np.full((*v.variable.shape[:-1], 8 * v.variable.shape[-1]), 0.5, np.float32)
        if "ClassPredictor" in v.name and "depthwise" not in v.name
        else np.full(v.variable.shape, 0.5, np.float32)
        for v in scoped_variables(network, EXTRACTOR)
    }
    return write_named_checkpoint(values, tmp_path / "model.ckpt")


def test_a_checkpoint_of_tensorflow_1_fills_what_fits(checkpoint: str) -> None:
    config = _config(
        checkpoint, fine_tune_checkpoint_type="detection", load_all_detection_checkpoint_vars=True
    )
    model = build_detector(config.model)
    start = fill_starting_weights(model, config, "")
    assert start.source == checkpoint
    skipped = {"class_head_pointwise/kernel:0", "class_head_pointwise/bias:0"}
    filled = {v.name for v in model.network.variables if np.all(v.numpy() == 0.5)}
    assert filled == {v.name for v in model.network.variables} - skipped
    assert start.counts() == {"restored": len(filled), "skipped_shape": 2, "missing": 0, "unused": 0}
    (table,) = start.tables().values()
    assert table.count("skipped: another shape: class_head_pointwise") == 2
