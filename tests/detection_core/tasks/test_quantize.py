"""Quantization-aware training of a small real detector, from folder to folder."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts import detector as layout
from detection_core.builders.detector import build_detector
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.errors import ConfigError
from detection_core.exporters.detector_folder import load_detector, write_detector
from detection_core.tasks.quantize import QuantizationReport, quantize
from tests.support.tiny_network import randomise
from tests.support.tiny_training import config_text, write_examples

REWRITER = "graph_rewriter {{ quantization {{ delay: {delay} weight_bits: {bits} activation_bits: 8 }} }}"


class Workbench:
    """A float detector, examples, and quantization with outputs under a name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.examples = write_examples(root / "examples")
        config = parse_pipeline_config(config_text())
        model = build_detector(config.model)
        randomise(model.network, 1)
        labels = load_label_map(str(self.examples / "label_map.pbtxt"))
        write_detector(model, config, labels, str(root / "float"))

    def __call__(self, name: str, text: str) -> QuantizationReport:
        return quantize(
            point_at_examples(parse_pipeline_config(text), str(self.examples)),
            model_dir=str(self.root / "float"),
            quantized_model_dir=str(self.root / name / "model"),
            quantized_run_dir=str(self.root / name / "run"),
            quantization_dir=str(self.root / name / "quantization"),
            work_dir=str(self.root / "work"),
        )


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("quantize"))


@pytest.fixture(scope="module")
def report(workbench: Workbench) -> QuantizationReport:
    return workbench("a", config_text(4) + REWRITER.format(delay=1, bits=8))


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_the_report_says_how_it_went(workbench, report):
    assert (report.steps, report.start_step, report.quantized_steps) == (4, 0, 3)
    assert np.isfinite(report.loss) and report.coverage == 1.0 and report.not_quantized == []
    run = workbench.root / "a" / "run"
    assert read(run / "train_report.json")["quantized_steps"] == 3
    assert "graph_rewriter" in (run / "pipeline.config").read_text()
    assert (run / "history.jsonl").read_text() and tf.train.latest_checkpoint(str(run / "checkpoint"))


def test_a_number_of_classes_that_is_left_out_is_the_detector_s(workbench, report):
    text = (config_text(4) + REWRITER.format(delay=1, bits=8)).replace("num_classes: 2", "")
    followed = workbench("followed", text)
    assert (followed.start_step, followed.fingerprint) == (4, report.fingerprint)


def test_the_list_of_what_is_quantized_is_an_artifact_and_beside_the_model(workbench, report):
    record = read(workbench.root / "a" / "quantization" / "quantization.json")
    assert record == json.loads(layout.read_extra(str(workbench.root / "a" / "model"), layout.QUANTIZATION))
    assert record["settings"] == {
        "delay": 1,
        "weight_bits": 8,
        "activation_bits": 8,
        "symmetric": False,
        "pairwise_sums": True,
        "hard_swish": True,
        "weighted_sums": True,
    }
    kinds = {entry["kind"] for entry in record["quantized"]}
    assert {"Conv2D", "DepthwiseConv2D", "Add", "ReLU", "UpSampling2D", "Concatenate"} <= kinds
    assert record["coverage"]["convolutions"] == record["coverage"]["quantized_convolutions"] > 50


def test_the_detector_can_be_rebuilt_and_its_saved_model_is_quantized(workbench, report):
    path = str(workbench.root / "a" / "model")
    loaded = load_detector(path)
    assert loaded.info.kind == "quantized" and loaded.info.extra["steps"] == 4
    served = tf.saved_model.load(layout.serving_dir(path)).signatures["serving_default"]
    image = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3)).astype(np.uint8)
    scores = served(tf.constant(image))["raw_detection_scores"]
    pixels = loaded.model.preprocess(tf.constant(image, tf.float32))
    _, logits = loaded.model.network(pixels, training=False)
    np.testing.assert_allclose(scores, tf.sigmoid(logits), atol=1e-5)
    # What the last layer gives is on the grid of 256 values that an integer file has.
    assert len(np.unique(np.asarray(logits))) <= 256


def test_training_moved_the_weights_and_the_same_again_is_already_done(workbench, report):
    again = workbench("b", config_text(4) + REWRITER.format(delay=1, bits=8))
    assert (again.start_step, again.fingerprint) == (4, report.fingerprint)
    a, b = (load_detector(str(workbench.root / name / "model")).model.network.weights for name in "ab")
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_delay_beyond_the_end_is_warned_of_and_still_exports_quantized(workbench, caplog):
    with caplog.at_level(logging.WARNING):
        late = workbench("late", config_text(1) + REWRITER.format(delay=5, bits=8))
    assert late.quantized_steps == 0 and "delay is 5 and training ends after 1 steps" in caplog.text
    path = str(workbench.root / "late" / "model")
    kernels = load_detector(path).model.network
    assert json.loads(layout.read_extra(path, layout.QUANTIZATION))["settings"]["delay"] == 5
    assert kernels.trainable_weights


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (config_text(), "graph_rewriter: expected a graph_rewriter block"),
        (
            config_text() + REWRITER.format(delay=0, bits=40),
            "weight_bits: expected 8, or 4 for a file with 4 bits, found 40",
        ),
        (
            config_text() + REWRITER.format(delay=0, bits=8) + "eval_config { eval_instance_masks: true }",
            "eval_config.eval_instance_masks: expected false, found true",
        ),
        (
            config_text().replace("depth: 8 num", "depth: 9 num") + REWRITER.format(delay=0, bits=8),
            "model: expected the model section that the detector",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused_with_a_remedy_and_leaves_no_output(workbench, text, message):
    with pytest.raises(ConfigError, match=message):
        workbench("refused", text)
    assert not (workbench.root / "refused").exists()
