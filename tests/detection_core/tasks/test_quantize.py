"""Quantization-aware training of a small real detector, from folder to folder."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.artifacts.model_run import QUANTIZATION_REPORT
from detection_core.config.check import check_pipeline_config
from detection_core.config.input_paths import point_at_examples
from detection_core.config.load import parse_pipeline_config
from detection_core.errors import ConfigError
from detection_core.exporters.detector_folder import load_detector
from detection_core.tasks.quantize import QuantizationReport, quantize
from tests.support.cases import refused
from tests.support.detectors import REWRITER, STEPS, examples, family_config, quantized, trained


@pytest.fixture
def quantizing(tmp_path):
    """Quantizes the plain detector, as a text says, with outputs under a name."""

    def run(name: str, text: str) -> QuantizationReport:
        folder, model_dir = str(tmp_path / name), str(trained("plain") / "model")
        outputs = {"quantized_model_dir": f"{folder}/model", "quantized_run_dir": f"{folder}/run"}
        outputs |= {"quantization_dir": f"{folder}/quantization", "work_dir": str(tmp_path / "work")}
        config = point_at_examples(parse_pipeline_config(text), str(examples()))
        return quantize(check_pipeline_config(config), model_dir=model_dir, **outputs)

    return run


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("family", ["ssd", pytest.param("efficientdet", marks=pytest.mark.slow)])
def test_the_record_says_how_it_went_and_what_is_quantized(family):
    run, steps = quantized(family) / "run", STEPS[family]
    report = QUANTIZATION_REPORT.read(str(run))
    assert (report.steps, report.start_step, report.quantized_steps) == (steps, 0, steps - 1)
    assert np.isfinite(report.loss) and report.coverage == 1.0 and report.not_quantized == []
    assert "graph_rewriter" in (run / "pipeline.config").read_text()
    assert (run / "history.jsonl").read_text() and tf.train.latest_checkpoint(str(run / "checkpoint"))
    model = str(quantized(family) / "model")
    record = read(quantized(family) / "quantization" / "quantization.json")
    assert record == json.loads(layout.read_extra(model, layout.QUANTIZATION))
    settings = {"delay": 1, "weight_bits": 8, "activation_bits": 8, "symmetric": False}
    assert record["settings"] == settings
    kinds = {entry["kind"] for entry in record["quantized"]}
    assert {"Conv2D", "DepthwiseConv2D", "Add", "Concatenate"} <= kinds
    assert record["coverage"]["convolutions"] == record["coverage"]["quantized_convolutions"] > 50
    info = layout.read_info(model)
    assert info.kind == "quantized" and info.extra["steps"] == steps
    assert (info.extra["quantized_steps"], info.extra["trained_as"]) == (steps - 1, report.fingerprint)


def assert_served_quantized(path: str) -> None:
    """The SavedModel computes what the loaded detector does, on the grid of an integer file."""
    loaded = load_detector(path)
    served = tf.saved_model.load(layout.serving_dir(path)).signatures["serving_default"]
    image = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3)).astype(np.uint8)
    scores = served(tf.constant(image))["raw_detection_scores"]
    _, logits = loaded.model.network(loaded.model.preprocess(tf.constant(image, tf.float32)), training=False)
    np.testing.assert_allclose(scores, tf.sigmoid(logits), atol=1e-5)
    assert 10 < len(np.unique(np.asarray(logits))) <= 256 and loaded.model.network.trainable_weights


def test_the_detector_can_be_rebuilt_and_its_saved_model_is_quantized():
    assert_served_quantized(str(quantized("plain") / "model"))


@pytest.mark.slow
def test_the_same_again_is_already_done_also_where_classes_are_left_to_the_detector(quantizing, tmp_path):
    shutil.copytree(quantized("plain") / "work", tmp_path / "work")
    again = quantizing("again", (family_config("plain") + REWRITER).replace("num_classes: 2", ""))
    before = QUANTIZATION_REPORT.read(str(quantized("plain") / "run"))
    assert (again.start_step, again.fingerprint) == (STEPS["plain"], before.fingerprint)
    folders = (quantized("plain"), tmp_path / "again")
    a, b = (load_detector(str(folder / "model")).model.network.weights for folder in folders)
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_delay_beyond_the_end_is_warned_of_and_still_exports_quantized(quantizing, tmp_path, caplog):
    late = quantizing("late", family_config("plain", steps=1) + REWRITER.replace("delay: 1", "delay: 5"))
    assert late.quantized_steps == 0 and "delay is 5 and training ends after 1 steps" in caplog.text
    path = str(tmp_path / "late" / "model")
    assert json.loads(layout.read_extra(path, layout.QUANTIZATION))["settings"]["delay"] == 5
    assert_served_quantized(path)


def test_what_cannot_be_followed_is_refused_with_a_remedy_and_leaves_no_output(quantizing, tmp_path):
    config, masks = family_config("plain"), "eval_config { eval_instance_masks: true }"
    wide = REWRITER.replace("weight_bits: 8", "weight_bits: 40")
    deeper = config.replace("depth: 8 num", "depth: 9 num")
    for text, message in (
        (config, "graph_rewriter: expected a graph_rewriter block"),
        (config + wide, "weight_bits: expected 8, or 4 for a file with 4 bits, found 40"),
        (config + REWRITER + masks, "eval_config.eval_instance_masks: expected false, found true"),
        (deeper + REWRITER, "model: expected the model section that the detector"),
    ):
        refused(ConfigError, message, quantizing, "refused", text)
    assert not (tmp_path / "refused").exists()
